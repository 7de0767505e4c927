"""fairseq_gmlm.data.distillation: what makes two distillations the same."""

from fairseq_gmlm.data.distillation import fingerprint_of


def test_the_fingerprint_depends_on_values_and_not_on_order():
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert fingerprint_of({"a": 1}) != fingerprint_of({"a": 2})
