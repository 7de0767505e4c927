"""``--init-from``: what is taken of a checkpoint, and what is refused."""

from pathlib import Path
from typing import Any, Dict

import padir_support as support
import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModel

from fairseq_gmlm.models.initialization import PARTS, initialize_from


def save(path: Path, model: Any) -> str:
    torch.save({"model": model.state_dict()}, path)
    return str(path)


def teacher(task: Any, **options: Any) -> TransformerModel:
    """An autoregressive model with the data's plain dictionaries."""
    torch.manual_seed(1)
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.layers, side.attention_heads = 16, 32, 2, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    for name, value in options.items():
        setattr(cfg, name, value)
    with task._plain_dictionaries():
        return TransformerModel.build_model(cfg, task)


@pytest.fixture()
def task() -> Any:
    return support.task(mask_range=3)


def changed(model: Any, before: Dict[str, torch.Tensor]) -> set:
    return {n for n, v in model.state_dict().items() if not torch.equal(v, before[n])}


def test_from_an_autoregressive_model(task: Any, tmp_path: Path, caplog: Any) -> None:
    source = teacher(task)
    model = support.model(task)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with caplog.at_level("INFO"):
        taken, missing = initialize_from(
            model, save(tmp_path / "ar.pt", source), "encoder,decoder,embeddings"
        )
    theirs, ours = source.state_dict(), model.state_dict()
    for name in taken:
        assert torch.equal(ours[name][: len(theirs[name])], theirs[name]), name
    layers = [n for n in ours if ".layers." in n]
    assert layers and set(layers) <= set(taken) and missing == []
    # masks begin at the mean of all words
    table = theirs["decoder.embed_tokens.weight"]
    assert ours["decoder.embed_tokens.weight"].shape[0] == table.shape[0] + 4
    for row in ours["decoder.embed_tokens.weight"][len(table) :]:
        torch.testing.assert_close(row, table[4:].mean(0))
    assert torch.equal(ours["length_predictor.weight"], before["length_predictor.weight"])
    assert "took" in caplog.text and "decoder 52" in caplog.text and "embeddings 3" in caplog.text


def test_the_student_computes_with_the_teachers_encoder(task: Any, tmp_path: Path) -> None:
    source = teacher(task).eval()
    model = support.model(task)
    initialize_from(model, save(tmp_path / "ar.pt", source), "encoder,embeddings")
    tokens = support.sources([[4, 5, 6], [7, 8]])
    theirs = source.encoder(tokens, tokens.ne(1).sum(1))["encoder_out"][0].transpose(0, 1)
    ours = model.encode(tokens).states
    torch.testing.assert_close(ours[tokens.ne(1)], theirs[tokens.ne(1)], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone(task: Any, tmp_path: Path, part: str) -> None:
    options = {"learned_rejecter": True}
    other = support.model(task, seed=7, **options)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.5)
    model = support.model(task, **options)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    taken, _ = initialize_from(model, save(tmp_path / "gmlm.pt", other), part)
    assert changed(model, before) == set(taken)
    embeddings = {n for n in taken if "embed_tokens" in n or "output_projection" in n}
    if part == "embeddings":
        assert embeddings == set(taken) and len(taken) == 3
    else:
        start = "length_predictor" if part == "length" else part
        assert taken and not embeddings and all(n.startswith(start) for n in taken)


def test_a_model_with_more_parts_starts_those_at_random(
    task: Any, tmp_path: Path, caplog: Any
) -> None:
    other = support.model(task, seed=7)
    model = support.model(task, positional_attention=True)
    with caplog.at_level("INFO"):
        _, missing = initialize_from(model, save(tmp_path / "gmlm.pt", other), "encoder,decoder")
    assert missing and all("positional_attn" in n or "decoder.places" in n for n in missing)
    assert "start at random" in caplog.text and "decoder.places.weight" in caplog.text


def test_a_checkpoint_with_fewer_masks(task: Any, tmp_path: Path) -> None:
    other = support.model(support.task(), seed=7)
    model = support.model(task)
    initialize_from(model, save(tmp_path / "gmlm.pt", other), "embeddings")
    table = other.state_dict()["decoder.embed_tokens.weight"]
    assert torch.equal(model.state_dict()["decoder.embed_tokens.weight"][: len(table)], table)


@pytest.mark.parametrize("prefix,words", [("v", 12), ("w", 13)])
def test_other_dictionaries_are_refused(task: Any, tmp_path: Path, prefix: str, words: int) -> None:
    shared = support.dictionary(words, prefix)
    other_task = support.TranslationGMLMTask(
        support.TranslationGMLMConfig(mask_range=3), shared, shared
    )
    path = save(tmp_path / "gmlm.pt", support.model(other_task))
    with pytest.raises(ValueError, match="another source dictionary"):
        initialize_from(support.model(task), path, "embeddings")
    initialize_from(support.model(task), path, "encoder,decoder")  # no words in there


def test_an_autoregressive_model_of_another_size_is_refused(task: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "ar.pt", teacher(support.task(words=13)))
    with pytest.raises(ValueError, match="trained on a data-bin with these dictionaries"):
        initialize_from(support.model(task), path, "embeddings")


def test_other_shapes_are_refused_with_the_options_to_give(task: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "ar.pt", support.model(task, decoder_ffn_embed_dim=64))
    with pytest.raises(ValueError, match="--encoder-ffn-embed-dim"):
        initialize_from(support.model(task), path, "decoder")


def test_lengths_of_another_range_are_left(task: Any, tmp_path: Path, caplog: Any) -> None:
    other = support.model(task, max_target_positions=24)
    with caplog.at_level("INFO"):
        taken, missing = initialize_from(
            support.model(task), save(tmp_path / "a.pt", other), "encoder,length"
        )
    assert "length_predictor.weight" not in taken and "length_predictor.weight" in missing
    assert "left in" in caplog.text


@pytest.mark.parametrize("parts", ["", "encoder,head"])
def test_unknown_parts_are_refused(task: Any, tmp_path: Path, parts: str) -> None:
    with pytest.raises(ValueError, match="--init-parts takes any of"):
        initialize_from(support.model(task), save(tmp_path / "a.pt", support.model(task)), parts)


def test_files_that_are_no_checkpoints(task: Any, tmp_path: Path) -> None:
    model = support.model(task)
    with pytest.raises(ValueError, match="no such file"):
        initialize_from(model, str(tmp_path / "none.pt"), "encoder")
    (tmp_path / "text.pt").write_text("no weights", "utf-8")
    with pytest.raises(ValueError, match="damaged"):
        initialize_from(model, str(tmp_path / "text.pt"), "encoder")
    torch.save({"weights": {}}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="it holds no model"):
        initialize_from(model, str(tmp_path / "other.pt"), "encoder")
    torch.save({"model": {}}, tmp_path / "empty.pt")
    with pytest.raises(ValueError, match="nothing that this model could take"):
        initialize_from(model, str(tmp_path / "empty.pt"), "encoder")
