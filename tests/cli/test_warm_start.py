"""Start checkpoints for fairseq's own NAT models."""

from pathlib import Path

import pytest
import torch
from toy_teacher import run_command

from fairseq_gmlm.cli.warm_start import new_heads
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.models.initialization import IGNORED

HEADS = {
    "levenshtein_transformer": {"decoder.embed_mask_ins.weight", "decoder.embed_word_del.weight"},
    "insertion_transformer": {"decoder.pool_out.weight", "decoder.pool_out.bias"},
}


@pytest.mark.parametrize(
    ("arch", "noise"),
    [
        ("cmlm_transformer", "random_mask"),
        ("nonautoregressive_transformer", "full_mask"),
        ("iterative_nonautoregressive_transformer", "full_mask"),
        ("levenshtein_transformer", "random_delete"),
        ("insertion_transformer", "random_delete"),
    ],
)
def test_stock_models_train_from_it(
    arch: str, noise: str, toy_data: Path, toy_teacher: Path, tmp_path: Path
) -> None:
    start = tmp_path / "start.pt"
    done = run_command(
        *("fairseq_gmlm.cli.main", "warm-start", "--path", toy_teacher, "--output", start),
        *("--arch", arch),
    )
    assert done.returncode == 0, done.stderr
    teacher = load_checkpoint(toy_teacher)["model"]
    weights = load_checkpoint(start)["model"]
    heads = {name: weights.pop(name) for name in set(weights) - set(teacher)}
    assert set(heads) == HEADS.get(arch, {"decoder.embed_length.weight"})
    if arch not in HEADS:
        lengths = heads["decoder.embed_length.weight"]
        assert lengths.shape[0] == 256 and not lengths.any()
    assert weights.keys() == teacher.keys()
    assert all(torch.equal(weights[name], teacher[name]) for name in teacher)
    body = load_checkpoint(toy_teacher)["cfg"]["model"]
    names = [
        f"{side}_{part}"
        for side in ("encoder", "decoder")
        for part in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
    ]
    options = [f"--{name.replace('_', '-')}={getattr(body, name)}" for name in names]
    done = run_command(
        *("fairseq_cli.train", toy_data, "--user-dir", "fairseq_gmlm"),
        *("--task", "translation_lev", "--arch", arch, "--noise", noise),
        *("--criterion", "nat_loss", "--label-smoothing", 0.1, *options),
        *("--share-all-embeddings", "--finetune-from-model", start, "--optimizer", "adam"),
        *("--lr", 0, "--max-tokens", 400, "--max-update", 1, "--num-workers", 0),
        *("--data-buffer-size", 0, "--cpu", "--save-dir", tmp_path / arch),
        *("--required-batch-size-multiple", 1),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trained = load_checkpoint(tmp_path / arch / "checkpoint_last.pt")["model"]
    # fairseq 0.12.2 trains copies of its encoder's weights that nothing in training reads.
    read = {name for name in teacher if not name.endswith(IGNORED)}
    assert read == {name for name in read if torch.equal(trained[name], teacher[name])}
    assert all(torch.equal(trained[name], heads[name]) for name in heads)  # the rate is 0


def test_new_heads_are_spread_as_fairseq_spreads_them() -> None:
    """Embeddings normal with variance 1 / width, linear layers by Xavier's uniform."""
    torch.manual_seed(0)
    heads = new_heads("levenshtein_transformer", 64)
    inserted, deleted = (heads[name] for name in sorted(heads))
    assert inserted.shape == (256, 128) and deleted.shape == (2, 64)
    assert float(inserted.std()) == pytest.approx(128**-0.5, rel=0.02)
    assert float(deleted.std()) == pytest.approx(64**-0.5, rel=0.2)
    heads = new_heads("insertion_transformer", 64)
    weight, bias = heads["decoder.pool_out.weight"], heads["decoder.pool_out.bias"]
    assert weight.shape == (64, 128) and not bias.any()
    assert float(weight.abs().max()) == pytest.approx((6 / (64 + 128)) ** 0.5, rel=0.02)


def test_refuses_what_is_no_teacher(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"model": {"weight": torch.zeros(2)}}, path)
    done = run_command(
        "fairseq_gmlm.cli.main", "warm-start", "--path", path, "--output", tmp_path / "o.pt"
    )
    assert done.returncode == 2
    assert "not an encoder-decoder transformer" in done.stderr
    assert not (tmp_path / "o.pt").exists()
