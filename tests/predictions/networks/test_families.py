"""Networks are the models they are built from: logits, derivatives, and certificates that no attack breaks."""

import pytest
import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.predictions.certificate import Effort, certified_prediction
from robust_attn.predictions.networks.families import FAMILIES, whole_network
from robust_attn.through.classifier import exactly
from robust_attn.through.network import network_of
from robust_attn.types import UserError
from tests.predictions.cases import normal, smallest_margin
from tests.through.cases import generator, ids, image_classifier, pixels, text_classifier
from tests.through.families import MODELS, batch, built, reader


def own_logits(name, points):
    with exactly(reader(name).model):
        return reader(name).logits(TokenMeasure.uniform(points[None]))[0]


def test_every_family_has_a_model_here():
    kinds = {built(name).config.model_type for name in MODELS}
    assert kinds == set(FAMILIES) - {"xlm-roberta", "camembert"}  # which are RoBERTa under other names


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_models_own_at_other_points_than_it_was_checked_at(name):
    points = reader(name).measure(batch(name)).points
    network = network_of(reader(name), points[0])
    for moved in (points[0], points[1], points[1] + normal(generator(5), *points[1].shape)):
        torch.testing.assert_close(network.tape(moved).logits, own_logits(name, moved), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_the_jacobian_is_the_models_own(name):
    """Products of the operations' derivatives along the tape against automatic differentiation of the real model."""
    points = reader(name).measure(batch(name)).points[0]
    tape = network_of(reader(name), points).tape(points)
    along = normal(generator(6), *points.shape)
    tangents = [along[None]]
    for node in tape.nodes[1:]:
        tangents.append(node.operation.first(tape.at(node), [tangents[parent] for parent in node.parents]))
    step = 1e-5
    ahead, behind = (own_logits(name, points + sign * step * along) for sign in (1, -1))
    torch.testing.assert_close(tangents[-1][0], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("classifier", "inputs"), [(text_classifier, ids), (image_classifier, pixels)])
def test_an_encoder_with_a_head_on_the_mean_and_images(classifier, inputs):
    measure = classifier().measure(inputs())
    for sample, points in enumerate(measure.points):
        logits = network_of(classifier(), points).tape(points).logits
        torch.testing.assert_close(logits, classifier().logits(measure)[sample], rtol=1e-10, atol=1e-10)


def test_windows_differ_from_layer_to_layer():
    sizes = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
    network = whole_network(built("Qwen2ForCausalLM", **sizes), 6)
    first, second = (block.attention.visible for block in network.blocks)
    assert first.sum() == 21
    assert second.sum(1).tolist() == [1, 2, 3, 3, 3, 3]


def test_what_has_no_steps_is_one_sentence():
    import transformers

    config = transformers.OPTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, vocab_size=9,
                                    word_embed_proj_dim=8)  # fmt: skip
    with pytest.raises(UserError, match="no steps for a model of type opt, which cannot be certified: there are bert"):
        whole_network(transformers.OPTForCausalLM(config), 3)
    with pytest.raises(UserError, match="no steps for the head of a BertForMaskedLM"):
        whole_network(transformers.BertForMaskedLM(built("BertForSequenceClassification").config), 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_attack_flips_within_the_certified_radius(name):
    points = reader(name).measure(batch(name, tokens=3)).points[0]
    network = network_of(reader(name), points)
    effort = Effort(samples=64, planning=64, accuracy=0.5, start=1e-2)
    certificate = certified_prediction(network, points, effort=effort, seed=0)
    assert certificate.radius > 0
    least = smallest_margin(network, points, certificate.radius, free=torch.ones_like(points), seed=1)
    assert 0 < least < certificate.margin
