"""Which of many alike are tried by default; CI tries all of them (`-m slow`)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

SHARE = 5
"""Of the families below one case in so many is tried by default, drawn by the family's name: no period, so no alias."""
FAMILIES = {
    "tests/attacks/test_ascent.py": ("test_never_worse_than_its_start_never_decreasing_and_inside",),
    "tests/attacks/test_head_starts.py": ("test_two_tokens_move_and_the_whole_budget_is_spent",),
    "tests/attacks/test_mass_split.py": ("test_never_weaker_than_moving",),
    "tests/attacks/test_move.py": ("test_move_is_at_least_linear_and_beats_random",),
    "tests/attacks/test_sliver.py": ("test_slivers_are_never_weaker_than_moving_inside_the_same_support",),
    "tests/attacks/test_starts.py": ("test_starts_lie_in_the_budget_and_as_many_as_said",),
    "tests/attacks/test_torchattacks_bridge.py": (
        "test_ascents_in_l2_beat_random_moves_and_not_our_own",
        "test_every_suitable_attack_runs_and_stays_in_every_budget",
    ),
    "tests/attention/test_difference.py": (
        "test_differences_and_gradients_have_six_digits_however_small_the_displacement",
    ),
    "tests/attention/test_jacobian.py": (
        "test_a_column_is_that_of_the_attention_matrices",
        "test_adjoint_identity",
        "test_blocks_do_not_change_the_value",
        "test_dense_matrix_agrees",
        "test_jvp_is_the_derivative",
        "test_linear",
        "test_samples_do_not_mix",
        "test_vjp_is_the_transposed_derivative",
    ),
    "tests/attention/test_moved_token.py": ("test_it_is_the_difference_of_two_outputs",),
    "tests/attention/test_operator.py": (
        "test_adjoint_identity",
        "test_dense_matrix_agrees",
        "test_jvp_is_the_derivative",
        "test_linear",
        "test_samples_do_not_mix",
        "test_vjp_is_the_transposed_derivative",
    ),
    "tests/attention/test_rounding.py": (
        "test_neither_constant_nor_certificate_is_below_the_exact_one_at_huge_logits",
        "test_what_bounds_allow_for_rounding_covers_weights_that_differ_by_as_much",
        "test_where_weights_are_unknown_the_hull_holds_between_any_two_means",
    ),
    "tests/attention/test_streamed.py": (
        "test_columns_outside_are_hidden_and_columns_inside_are_seen_by_all",
        "test_values_and_both_products_are_those_of_kept_weights",
    ),
    "tests/bounds/test_comparators.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_the_steepest_tokens_exceed_no_constant",
        "test_yudin_is_never_above_nair_where_it_applies",
    ),
    "tests/bounds/test_paper.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_the_steepest_tokens_exceed_no_constant",
    ),
    "tests/bounds/test_rounding.py": (
        "test_closed_forms_and_hull_are_those_of_interval_arithmetic",
        "test_derivatives_inside_the_ball_are_below_the_closed_form_and_the_curvature",
        "test_no_attack_exceeds_the_certificate_in_exact_arithmetic",
    ),
    "tests/bounds/test_rows.py": ("test_known_rows_bound_what_queries_do_alone",),
    "tests/bounds/test_sharp.py": ("test_no_derivative_exceeds_a_constant",),
    "tests/bounds/test_slopes.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_scaling_laws",
    ),
    "tests/bounds/test_splitting.py": (
        "test_neither_random_nor_ascended_moves_exceed_a_bound",
        "test_scaling_laws",
    ),
    "tests/certificates/test_layer.py": (
        "test_neither_random_nor_ascended_moves_exceed_a_bound",
        "test_scaling_laws",
        "test_what_is_not_finite_is_unknown_and_raises_nothing",
    ),
    "tests/certificates/test_layer_tape.py": ("test_the_tape_is_the_layer",),
    "tests/certificates/test_radius.py": (
        "test_solved_case",
        "test_the_crossing_is_found_from_any_start",
        "test_without_chance_the_radius_is_smaller_and_certain",
    ),
    "tests/config/test_settings.py": (
        "test_a_name_changed_inside_a_group_is_one_sentence",
        "test_every_experiment_composes_and_is_instantiated",
        "test_every_option_composes_and_is_instantiated",
        "test_wrong_settings_of_experiments_are_one_sentence",
        "test_wrong_values_are_one_sentence",
    ),
    "tests/faults/test_numbers.py": ("test_every_bound_holds_and_is_known_at_the_edges",),
    "tests/models/generic/test_norms.py": ("test_an_attack_stays_within_the_certificate",),
    "tests/models/test_adapter.py": (
        "test_a_bfloat16_model_computes_the_exact_map_up_to_the_error_stated",
        "test_a_bfloat16_model_hands_out_its_weights_and_tokens_unrounded",
        "test_layers_agree_with_the_real_model_also_with_all_biases_away_from_zero",
        "test_no_input_of_a_layer_leaves_its_radius",
        "test_the_radius_is_that_of_the_norm_which_feeds_the_layer",
    ),
    "tests/models/test_wrap.py": (
        "test_a_model_in_memory_is_attacked_certified_and_left_as_it_was",
        "test_a_saved_model_is_found_by_its_folder_alone",
    ),
    "tests/predictions/remainders/test_remainders.py": (
        "test_products",
        "test_scalar_functions",
        "test_softmax",
    ),
    "tests/predictions/test_certificate.py": (
        "test_no_attack_flips_within_the_certified_radius",
        "test_nor_where_nothing_is_drawn",
    ),
    "tests/predictions/test_steps.py": ("test_first_second_and_third_derivatives_of_every_operation",),
    "tests/report/test_browser.py": ("test_the_page_never_scrolls_sideways",),
    "tests/report/test_drawing.py": ("test_every_panel_is_drawn_and_follows_the_page",),
    "tests/report/test_single.py": ("test_everything_a_run_leaves_is_there_whatever_its_kind",),
    "tests/soundness/test_check.py": (
        "test_every_function_of_the_table_is_compared",
        "test_functions_of_the_library_are_judged_exactly_too",
    ),
    "tests/soundness/test_exact.py": ("test_the_layer_is_within_its_stated_rounding",),
    "tests/spectral/test_lipschitz.py": (
        "test_adjoint_identity",
        "test_dense_matrix_agrees",
        "test_jvp_is_the_derivative",
        "test_linear",
        "test_samples_do_not_mix",
        "test_split_constant_is_that_of_the_split_measure",
        "test_vjp_is_the_transposed_derivative",
    ),
    "tests/test_budget.py": ("test_the_slope_never_points_out_and_is_the_gradient_inside",),
    "tests/test_cli.py": (
        "test_rows_that_cannot_be_read_are_one_sentence",
        "test_wrong_input_is_one_sentence_and_status_two",
    ),
    "tests/test_devices.py": ("test_local_lipschitz",),
    "tests/test_mutation.py": ("test_a_mutant_fits_in_one_place_and_names_tests_that_exist",),
    "tests/test_run.py": (
        "test_attack_on_small_random_models",
        "test_studies_of_a_single_head_leave_everything_a_run_leaves",
    ),
    "tests/through/test_readers.py": (
        "test_word_embeddings_are_read_as_ids",
        "test_writing_tokens_as_several_atoms_changes_nothing",
    ),
    "tests/through/test_runs.py": ("test_what_cannot_be_done_is_one_sentence",),
    "tests/through/test_victim.py": ("test_splitting_is_never_weaker_than_moving_and_in_the_budget",),
}
"""Tests with many parameters that take seconds together, by file."""


def at_first(values: Iterable[Any], count: int) -> list[Any]:
    """All of the values, only the first so many of them by default."""
    return [value if turn < count else pytest.param(value, marks=pytest.mark.slow) for turn, value in enumerate(values)]


def leave_some_to_ci(items: Sequence[pytest.Item]) -> None:
    """Marks four cases of five as slow in every family; those that are slow already are not counted."""
    families = defaultdict(list)
    for item in items:
        file, *rest = item.nodeid.split("[")[0].split("::")
        if rest and rest[-1] in FAMILIES.get(file, ()) and item.get_closest_marker("slow") is None:
            families[file, *rest].append(item)
    for name, members in families.items():
        kept = Random("::".join(name)).sample(range(len(members)), math.ceil(len(members) / SHARE))
        for index in set(range(len(members))) - set(kept):
            members[index].add_marker(pytest.mark.slow)
