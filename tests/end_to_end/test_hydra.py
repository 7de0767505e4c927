"""fairseq-hydra-train reads the same dataclasses."""

from pathlib import Path

from helpers import toy
from helpers.commands import PACKAGE, call, hypotheses, run

from fairseq_gmlm.compat import load_plain

CONFIG = """
defaults: [_self_]
common: {{user_dir: {package}, cpu: true, log_format: simple}}
task:
  {{_name: translation_gmlm, data: {data}, max_source_positions: 16, max_target_positions: 16,
  keep_prob: 0.1, mask_prior: fixed, mask_ratio: 0.5}}
model:
  {{_name: gmlm_transformer, encoder_layers: 1, decoder_layers: 1, encoder_embed_dim: 16,
  decoder_embed_dim: 16, encoder_ffn_embed_dim: 16, decoder_ffn_embed_dim: 16,
  encoder_attention_heads: 2, decoder_attention_heads: 2, share_all_embeddings: true}}
criterion: {{_name: gmlm_loss, num_train_stages: 2, loss_weights: all, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9,0.98)"}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.001], max_update: 3}}
dataset: {{batch_size: 32, num_workers: 0, data_buffer_size: 0, max_valid_steps: 1}}
checkpoint: {{save_dir: {save}, no_epoch_checkpoints: true}}
"""


def test_a_model_trained_by_hydra_decodes(toy_bin: Path, tmp_path: Path) -> None:
    """By a file with ``_name``s: hydra composes before any user_dir is imported."""
    text = CONFIG.format(package=PACKAGE, data=toy_bin, save=tmp_path / "run")
    (tmp_path / "gmlm.yaml").write_text(text, "utf-8")
    run(
        "hydra_train", "--config-dir", tmp_path, "--config-name", "gmlm",
        "optimization.max_update=4", f"hydra.run.dir={tmp_path / 'hydra'}", cwd=tmp_path,
    )  # fmt: skip
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    cfg = load_plain(checkpoint)["cfg"]
    assert cfg["criterion"]["num_train_stages"] == 2
    assert cfg["task"]["keep_prob"] == 0.1
    assert str(cfg["task"]["mask_prior"]) == "fixed"
    printed = call("generate", *toy.decoding(toy_bin, checkpoint), "--batch-size", 100)
    assert len(hypotheses(printed)) == toy.SIZES["test"]
