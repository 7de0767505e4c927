import pytest

from fairseq_gmlm.theory import graphs


def test_edges_of_the_usual_graphs():
    assert graphs.chain_ising(4, 1.0).edges == [(0, 1), (1, 2), (2, 3)]
    assert graphs.cycle_ising(4, 1.0).edges == [(0, 1), (1, 2), (2, 3), (0, 3)]
    assert sorted(graphs.grid_ising(2, 3, 1.0).edges) == [
        (0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5),
    ]  # fmt: skip
    assert graphs.clique_ising([3, 2], 1.0).edges == [(0, 1), (0, 2), (1, 2), (3, 4)]


def test_couplings_and_fields_are_where_they_should_be():
    model = graphs.clique_ising([3, 2], 0.7, 0.2)
    assert model.couplings[0, 1] == model.couplings[3, 4] == 0.7
    assert model.couplings[2, 3] == 0
    assert model.fields.tolist() == [0.2] * 5
    assert len(model.parameters) == 5 + 4


def test_random_models_depend_on_the_seed_alone():
    first, again = graphs.dense_ising(4, 0.5, 0.3, 7), graphs.dense_ising(4, 0.5, 0.3, 7)
    assert first.couplings.equal(again.couplings) and first.fields.equal(again.fields)
    assert not first.couplings.equal(graphs.dense_ising(4, 0.5, 0.3, 8).couplings)
    assert graphs.dense_field(3, 4, 0.5, 0).pair.equal(graphs.dense_field(3, 4, 0.5, 0).pair)


def test_a_cycle_of_two_is_refused():
    with pytest.raises(ValueError, match="at least 3 sites, got 2"):
        graphs.cycle_ising(2, 1.0)
