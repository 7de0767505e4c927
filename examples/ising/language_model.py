"""The plugin's ``gmlm_lm`` as a model of spins."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from torch import BoolTensor, LongTensor, Tensor, nn

from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols


class SymbolModel(nn.Module):
    """A ``gmlm_lm`` that is asked about symbols 0 .. A - 1, with BOS and EOS put around them.

    Args:
        language_model: over a dictionary of the plugin.
        symbols: ``(A,)`` their ids in it.
    """

    def __init__(self, language_model: GMLMLanguageModel, symbols: LongTensor) -> None:
        super().__init__()
        self.language_model, self.symbols = language_model, symbols

    def forward(self, tokens: LongTensor, hidden: BoolTensor) -> Tensor:
        """Log-probabilities ``(R, N, A)`` for ``tokens (R, N)`` of which ``hidden`` are masked."""
        dictionary = self.language_model.encoder.dictionary
        inner = self.symbols[tokens].masked_fill(hidden, self.language_model.vocabulary.mask)
        text = nn.functional.pad(inner, (1, 1), value=dictionary.eos())
        text[:, 0] = dictionary.bos()
        logits, _ = self.language_model(text)
        return torch.log_softmax(logits[:, 1:-1, self.symbols], -1)


def build_language_model(num_sites: int, alphabet_size: int, seed: int) -> SymbolModel:
    """A two-layer ``gmlm_lm`` of width 32 for sequences of ``num_sites`` symbols."""
    dictionary = Dictionary()
    symbols = [dictionary.add_symbol(str(symbol)) for symbol in range(alphabet_size)]
    add_symbols(dictionary)
    task = SimpleNamespace(
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        vocabulary=Vocabulary.of(dictionary),
    )
    config = GMLMLanguageModelConfig(
        encoder_embed_dim=32,
        encoder_ffn_embed_dim=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_normalize_before=True,
        dropout=0.0,
        attention_dropout=0.0,
        max_positions=num_sites + 2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        language_model = GMLMLanguageModel.build_model(config, task)
    return SymbolModel(language_model, torch.tensor(symbols))
