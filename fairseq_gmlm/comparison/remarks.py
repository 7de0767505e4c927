"""What a reader of a row should know, and options that its decoder does not read."""

from typing import List, Optional

from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.comparison.translations import Translations

# Of beam search, and of no decoder that works on whole sentences.
_BEAM_SEARCH = {
    *("beam", "max_len_a", "max_len_b", "min_len", "unkpen", "no_repeat_ngram_size"),
    *("match_source_len", "diverse_beam_groups", "no_early_stop"),
}
# Of this plugin's decoder and of no other that works on whole sentences.
_SAMPLING = {"sampling", "sampling_topk", "sampling_topp", "temperature", "lenpen", "nbest"}


def unread_options(row: SystemSpec, family: str) -> List[str]:
    """Options that the decoder of this family does not read."""
    unread = {
        "autoregressive": {n for n in row.options if n.startswith(("iter_decode", "retain_iter"))},
        "nat": _BEAM_SEARCH | _SAMPLING,
        "gmlm": _BEAM_SEARCH,
    }[family]
    return sorted(set(row.options) & unread)


def row_warnings(row: SystemSpec, made: Translations, leftovers: Optional[int]) -> List[str]:
    """One sentence each.

    Args:
        leftovers: masks in the outputs of all checkpoints; None where there can be none.
    """
    found = []
    stock = made.family == "nat" and made.kind.startswith("cmlm_transformer")
    if stock and not row.options.get("iter_decode_force_max_iter"):
        found.append(
            "fairseq's CMLM is decoded without iter_decode_force_max_iter: its early stop leaves "
            "masks behind, which makes it a weaker baseline than it is"
        )
    if leftovers:
        found.append(f"{leftovers} masks are left in the outputs")
    if made.left_out:
        found.append(
            f"{made.left_out} sources are longer than its position table and translate to nothing; "
            "no row is timed on them"
        )
    unread = unread_options(row, made.family)
    if unread:
        found.append(f"its decoder does not read {', '.join(unread)}")
    return found
