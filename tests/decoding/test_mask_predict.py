"""Mask-predict against fairseq's own generator and model, token for token."""

from argparse import Namespace
from typing import Any, Dict, List

import pytest
import torch
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from fairseq.models.nat.cmlm_transformer import CMLMNATransformerModel
from helpers import models as make
from torch import Tensor

from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel

POSITIONS = {"max_target_positions": 255}


def imported(stock: CMLMNATransformerModel, **options: Any) -> GMLMTransformerModel:
    """The same weights in a ``gmlm_transformer``."""
    owner = Namespace(
        source_dictionary=stock.decoder.dictionary,
        target_dictionary=stock.decoder.dictionary,
        vocabulary=None,
    )
    values = {**make.SMALL, **POSITIONS, **options, "stock_cmlm": True}
    built = GMLMTransformerModel.build_model(make.GMLMTransformerConfig(**values), owner)
    state = dict(stock.state_dict())
    state["length_predictor.weight"] = state.pop("decoder.embed_length.weight")
    own = built.state_dict()
    built.load_state_dict({**own, **{k: v for k, v in state.items() if k in own}})
    return built.eval()


def ours(model: GMLMTransformerModel, batch: Dict[str, Any], **options: Any) -> List[Any]:
    """Hypotheses of this project's generator."""
    generator = GMLMGenerator([model], DecodingOptions.of(DecodingConfig(), Namespace(**options)))
    return generator.generate([model], batch)


def theirs(model: CMLMNATransformerModel, batch: Dict[str, Any], **options: Any) -> List[Any]:
    """Hypotheses of fairseq's generator."""
    generator = IterativeRefinementGenerator(
        model.decoder.dictionary, models=[model], adaptive=False, **options
    )
    return generator.generate([model], batch)


def source_batch(seed: int, left: bool = True) -> Dict[str, Any]:
    """Sources with BOS, as fairseq's NAT models want them."""
    rows = [[0, *row] for row in make.sources((3, 9, 1, 6, 4, 7), seed)]
    return make.sample(rows, left=left)


KINDS: Dict[str, Dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, learned": {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
    },
    "shared": {"share_all_embeddings": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_iter", [0, 1, 2, 4, 9])
def test_tokens_and_scores_of_fairseqs_generator(kind: str, max_iter: int) -> None:
    options = {**KINDS[kind], **POSITIONS}
    stock, _ = make.stock_cmlm(seed=3, **options)
    model = imported(stock, **KINDS[kind])
    for seed in range(3):
        found = ours(
            model,
            source_batch(seed),
            iter_decode_max_iter=max_iter,
            iter_decode_force_max_iter=True,
        )
        expected = theirs(stock, source_batch(seed), max_iter=max_iter)
        for mine, other in zip(found, expected):
            assert mine[0]["tokens"].tolist() == other[0]["tokens"].tolist()
            torch.testing.assert_close(
                mine[0]["positional_scores"], other[0]["positional_scores"], atol=1e-4, rtol=1e-4
            )
            assert mine[0]["steps"] == other[0]["steps"] == max_iter
            # fairseq's mean counts BOS and EOS, which are given, as two zeros.
            count = len(mine[0]["tokens"])
            torch.testing.assert_close(
                mine[0]["score"] * (count - 2), other[0]["score"] * count, atol=1e-3, rtol=1e-4
            )


def test_length_candidates_of_fairseqs_generator() -> None:
    stock, _ = make.stock_cmlm(seed=5, **POSITIONS)
    model = imported(stock)
    found = ours(
        model,
        source_batch(1),
        iter_decode_max_iter=3,
        iter_decode_force_max_iter=True,
        length_offset_beam=3,
        nbest=3,
    )
    expected = theirs(stock, source_batch(1), max_iter=3, beam_size=3)
    for mine, other in zip(found, expected):
        # fairseq returns the best of the three by a mean with two more zeros in it.
        def stock_mean(hypothesis: Dict[str, Tensor]) -> float:
            return float(hypothesis["positional_scores"].mean())

        assert len({len(h["tokens"]) for h in mine}) == 3
        best = max(mine, key=stock_mean)
        assert best["tokens"].tolist() == other[0]["tokens"].tolist()
        assert stock_mean(best) == pytest.approx(float(other[0]["score"]), abs=1e-4)


def test_stock_leaves_masks_where_this_project_does_not() -> None:
    """fairseq stops when remasked inputs repeat, which may be all masks (design section 5)."""
    left = 0
    stock, dictionary = make.stock_cmlm(words=4, seed=1, longest=6, **POSITIONS)
    with torch.no_grad():  # a confident model, so that drafts settle early
        stock.decoder.output_projection.weight.mul_(5)
        stock.decoder.output_projection.weight[dictionary.unk()] = 0
    model = imported(stock)
    batch = make.sample([[0, *row] for row in make.sources([1 + i % 4 for i in range(60)], 2, 4)])
    generator = IterativeRefinementGenerator(dictionary, models=[stock], max_iter=9)
    for hypothesis in generator.generate([stock], batch):
        left += int(hypothesis[0]["tokens"].eq(dictionary.unk()).any())
    assert left > 0
    for hypothesis in ours(model, batch, iter_decode_max_iter=9):
        assert not hypothesis[0]["tokens"].eq(dictionary.unk()).any()


def test_early_stop_changes_no_output() -> None:
    """A draft that two passes agree on is no fixed point; only an empty blank ends a row."""
    model = make.model(seed=4)
    rows = make.sources((1, 2, 3, 5, 8, 8), seed=2)
    found = {}
    for force in (False, True):
        options = {"iter_decode_max_iter": 9, "iter_decode_with_beam": 2}
        chosen = ours(model, make.sample(rows), **options, iter_decode_force_max_iter=force)
        found[force] = [hypotheses[0] for hypotheses in chosen]
    for early, forced in zip(found[False], found[True]):
        assert early["tokens"].tolist() == forced["tokens"].tolist()
        assert float(early["score"]) == pytest.approx(float(forced["score"]), abs=1e-6)
        words = len(forced["tokens"]) - 2
        assert forced["passes"] == 10
        # floor(words * (10 - t) / 10) reaches zero after this many passes
        needed = next(t for t in range(1, 11) if words * (10 - t) // 10 == 0)
        assert early["passes"] >= needed
