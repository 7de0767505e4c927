"""A teacher's opinion token by token, and its list beside fairseq's own search."""

from pathlib import Path

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from helpers import models as make

from fairseq_gmlm.analysis.teacher_view import TeacherView
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.data.teacher import Teacher

SOURCES = [[4, 5, 6], [7, 8]]


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    """Random weights, sharpened so that nothing ties."""
    words = make.dictionary()
    task = TranslationTask(TranslationConfig(source_lang="a", target_lang="b"), words, words)
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.layers, side.attention_heads = 16, 32, 1, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    torch.manual_seed(3)
    model = TransformerModel.build_model(cfg, task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.0)
    return Teacher(Path("t.pt"), model, task, Languages("a", "b"), words, words)


def test_opinions_token_by_token(teacher: Teacher) -> None:
    view = TeacherView(teacher, 1, 5, torch.device("cpu"))
    targets = [[9, 10, 11, 12], []]
    found = view.opinions(SOURCES, targets)
    src = torch.tensor([[*SOURCES[0], 2]])
    agreed, total = 0, 0.0
    for place, token in enumerate(targets[0]):
        before = torch.tensor([[2, *targets[0][:place]]])
        logs = teacher.model(src, torch.tensor([4]), before)[0][0, -1].log_softmax(-1)
        agreed += int(logs.argmax()) == token
        total += float(logs[token])
    assert found[0] == (agreed, pytest.approx(total, abs=1e-4), 4)
    assert found[1] == (0, 0.0, 0)


def test_greedy_translations_are_agreed_with(teacher: Teacher) -> None:
    view = TeacherView(teacher, 1, 1, torch.device("cpu"))
    best = [each[0] for each in view.translations(SOURCES)]
    assert all(best)
    for opinion, tokens in zip(view.opinions(SOURCES, best), best):
        # The search may not choose <unk> or padding, which the opinion knows nothing of.
        assert opinion.total == len(tokens) and opinion.agreed >= len(tokens) - 1


def test_lists_are_distinct_and_of_the_length_asked_for(teacher: Teacher) -> None:
    view = TeacherView(teacher, 3, 5, torch.device("cpu"))
    for listed in view.translations(SOURCES):
        assert len(listed) == 3 and len({tuple(t) for t in listed}) == 3
        assert all(token not in (0, 1, 2) for tokens in listed for token in tokens)
    # A symbol that only the student has, such as its mask, is never agreed with.
    assert view.opinions(SOURCES[:1], [[len(teacher.target_dictionary)]])[0].agreed == 0
