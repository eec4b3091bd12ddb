"""Which of many alike are tried by default; CI tries all of them (`-m slow`)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import settings

CI_EXAMPLES = 25
"""Of hypothesis, in its profile `ci`."""
SHARE = 5
"""Of the families below one case in so many is tried by default, drawn by the family's name: no period, so no alias."""
FAMILIES = {
    "tests/attacks/test_as_torchattacks.py": ("test_at_least_as_strong_as_pgdl2_with_the_same_number_of_gradients",),
    "tests/attacks/test_ascent.py": ("test_never_worse_than_its_start_never_decreasing_and_inside",),
    "tests/attacks/test_copies.py": ("test_the_largest_query_block_is_the_constant_of_zero_mean_motion",),
    "tests/attacks/test_head_starts.py": ("test_two_tokens_move_and_the_whole_budget_is_spent",),
    "tests/attacks/test_mass_split.py": (
        "test_many_pieces_do_not_stop_at_the_first_summit",
        "test_never_weaker_than_moving",
        "test_never_weaker_than_moving_on_a_loss",
    ),
    "tests/attacks/test_move.py": (
        "test_move_is_at_least_linear_and_beats_random",
        "test_tiny_radius_attains_the_exact_local_constant",
    ),
    "tests/attacks/test_output_change.py": ("test_a_search_in_single_precision_is_as_strong_and_its_values_are_exact",),
    "tests/attacks/test_sliver.py": ("test_slivers_are_never_weaker_than_moving_inside_the_same_support",),
    "tests/attacks/test_starts.py": (
        "test_singular_directions_are_those_of_the_dense_matrix",
        "test_small_budgets_are_nearly_linear_and_large_ones_are_not",
        "test_starts_lie_in_the_budget_and_as_many_as_said",
    ),
    "tests/attacks/test_torchattacks_bridge.py": (
        "test_ascents_in_l2_beat_random_moves_and_not_our_own",
        "test_every_suitable_attack_runs_and_stays_in_every_budget",
    ),
    "tests/attention/test_derivatives.py": ("test_it_is_what_nested_forward_mode_says",),
    "tests/attention/test_difference.py": (
        "test_differences_and_gradients_have_six_digits_however_small_the_displacement",
    ),
    "tests/attention/test_extras.py": (
        "test_no_attack_exceeds_a_certificate",
        "test_slivers_stay_within_the_certificate_for_measures",
    ),
    "tests/attention/test_head_norm.py": (
        "test_heads_add_up_and_blocks_are_those_of_the_derivative",
        "test_no_attack_exceeds_a_certificate",
        "test_slivers_stay_within_the_certificate_for_measures",
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
        "test_logits_in_float32_err_by_no_more_than_stated",
        "test_neither_constant_nor_certificate_is_below_the_exact_one_at_huge_logits",
        "test_the_derivative_in_float32_is_off_by_less_than_stated",
        "test_the_derivative_is_off_by_less_than_stated_when_logits_move",
        "test_what_bounds_allow_for_rounding_covers_weights_that_differ_by_as_much",
        "test_where_weights_are_unknown_the_hull_holds_between_any_two_means",
    ),
    "tests/attention/test_streamed.py": (
        "test_columns_outside_are_hidden_and_columns_inside_are_seen_by_all",
        "test_values_and_both_products_are_those_of_kept_weights",
    ),
    "tests/attention/test_windows_and_tables.py": (
        "test_no_attack_exceeds_a_certificate",
        "test_splits_of_a_window_stay_within_the_certificate_for_measures",
    ),
    "tests/bounds/test_ball.py": (
        "test_closed_form_at_the_tokens_dominates_the_exact_constant",
        "test_row_blocks_do_not_change_the_values",
        "test_rows_of_first_copies_stand_for_all",
        "test_two_equal_heads_are_twice_one",
    ),
    "tests/bounds/test_bent.py": ("test_what_bends_dominates_logits_and_slopes_on_the_ball",),
    "tests/bounds/test_comparators.py": (
        "test_all_comparators_speak_and_none_certifies",
        "test_no_derivative_exceeds_a_constant",
        "test_scaling_laws",
        "test_the_steepest_tokens_exceed_no_constant",
        "test_yudin_is_never_above_nair_where_it_applies",
    ),
    "tests/bounds/test_joint_norms.py": ("test_ascent_comes_near_the_reach_of_twelve_heads",),
    "tests/bounds/test_one_token.py": (
        "test_it_is_what_the_proof_states_entry_by_entry",
        "test_no_displacement_of_one_token_exceeds_its_bound",
    ),
    "tests/bounds/test_paper.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_scaling_laws",
        "test_the_steepest_tokens_exceed_no_constant",
    ),
    "tests/bounds/test_propagation.py": ("test_every_row_stays_in_its_own_interval",),
    "tests/bounds/test_rounding.py": (
        "test_closed_forms_and_hull_are_those_of_interval_arithmetic",
        "test_derivatives_inside_the_ball_are_below_the_closed_form_and_the_curvature",
        "test_no_attack_exceeds_the_certificate_in_exact_arithmetic",
        "test_the_layer_errs_by_less_than_it_says",
    ),
    "tests/bounds/test_rows.py": (
        "test_known_rows_bound_what_queries_do_alone",
        "test_rows_of_copies_are_those_of_their_tokens",
    ),
    "tests/bounds/test_sharp.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_scaling_laws",
        "test_the_steepest_tokens_exceed_no_constant",
    ),
    "tests/bounds/test_sharp_laws.py": ("test_ascent_on_the_largest_row_does_not_exceed_token_max",),
    "tests/bounds/test_sharp_mean_field.py": (
        "test_ascent_over_points_and_masses_does_not_exceed_the_sharp_mean_field_bound",
    ),
    "tests/bounds/test_slopes.py": (
        "test_no_derivative_exceeds_a_constant",
        "test_scaling_laws",
        "test_the_steepest_tokens_exceed_no_constant",
    ),
    "tests/bounds/test_splitting.py": (
        "test_neither_random_nor_ascended_moves_exceed_a_bound",
        "test_scaling_laws",
    ),
    "tests/bounds/test_splitting_local.py": ("test_overflow_is_infinite_and_never_not_a_number",),
    "tests/certificates/test_higher_orders.py": (
        "test_no_ascent_exceeds_it",
        "test_no_bound_that_it_is_made_of_is_smaller",
    ),
    "tests/certificates/test_layer.py": (
        "test_neither_random_nor_ascended_moves_exceed_a_bound",
        "test_scaling_laws",
        "test_what_is_not_finite_is_unknown_and_raises_nothing",
    ),
    "tests/certificates/test_layer_tape.py": ("test_the_tape_is_the_layer",),
    "tests/certificates/test_radius.py": (
        "test_samples_do_not_influence_each_other",
        "test_solved_case",
        "test_the_crossing_is_found_from_any_start",
        "test_without_chance_the_radius_is_smaller_and_certain",
    ),
    "tests/config/test_names.py": ("test_a_folder_is_named_by_what_is_really_used",),
    "tests/config/test_places.py": ("test_settings_read_back_from_a_run_folder_have_the_same_hash",),
    "tests/config/test_schema.py": ("test_a_choice_is_a_structured_configuration_with_the_defaults_of_its_settings",),
    "tests/config/test_settings.py": (
        "test_a_name_changed_inside_a_group_is_one_sentence",
        "test_an_empty_path_is_one_sentence",
        "test_every_experiment_composes_and_is_instantiated",
        "test_every_option_composes_and_is_instantiated",
        "test_wrong_settings_of_experiments_are_one_sentence",
        "test_wrong_values_are_one_sentence",
    ),
    "tests/config/test_split.py": ("test_numbers_of_samples_are_whole",),
    "tests/faults/test_numbers.py": ("test_every_bound_holds_and_is_known_at_the_edges",),
    "tests/fuzz/test_settings.py": ("test_a_target_is_no_setting",),
    "tests/models/generic/test_extract.py": ("test_every_refusal_has_its_reason",),
    "tests/models/generic/test_norms.py": (
        "test_an_attack_stays_within_the_certificate",
        "test_what_each_model_has_is_found",
    ),
    "tests/models/generic/test_products.py": ("test_falcon_in_both_of_its_implementations",),
    "tests/models/test_adapter.py": (
        "test_a_bfloat16_model_computes_the_exact_map_up_to_the_error_stated",
        "test_a_bfloat16_model_hands_out_its_weights_and_tokens_unrounded",
        "test_bfloat16_agrees_within_its_tolerance",
        "test_layers_agree_with_the_real_model_also_with_all_biases_away_from_zero",
        "test_no_input_of_a_layer_leaves_its_radius",
        "test_the_radius_is_that_of_the_norm_which_feeds_the_layer",
        "test_weights_are_views_of_the_models_parameters",
    ),
    "tests/models/test_gpt2.py": ("test_both_settings_of_the_scale_are_honoured",),
    "tests/models/test_llama.py": ("test_scaled_rotary_embeddings_agree_with_the_model",),
    "tests/models/test_selfcheck.py": ("test_one_altered_number_is_refused",),
    "tests/models/test_tensors.py": (
        "test_a_head_is_left_out_in_silence_and_a_layer_is_not",
        "test_more_layers_than_the_file_has_are_refused",
    ),
    "tests/models/test_wrap.py": (
        "test_a_model_in_memory_is_attacked_certified_and_left_as_it_was",
        "test_a_saved_model_is_found_by_its_folder_alone",
    ),
    "tests/pipeline/test_constants.py": ("test_it_is_what_a_power_iteration_with_the_primal_converges_to",),
    "tests/pipeline/test_motion.py": ("test_the_tokens_together_moved_as_far_as_the_measure",),
    "tests/pipeline/test_predictions.py": (
        "test_flips_are_found_and_splitting_never_needs_more",
        "test_small_changes_are_certified_at_every_layer",
    ),
    "tests/predictions/networks/test_families.py": (
        "test_logits_are_the_models_own_at_other_points_than_it_was_checked_at",
        "test_the_jacobian_is_the_models_own",
    ),
    "tests/predictions/remainders/test_remainders.py": (
        "test_inverse_root",
        "test_powers",
        "test_products",
        "test_scalar_functions",
        "test_softmax",
    ),
    "tests/predictions/test_baselines.py": (
        "test_intervals_contain_every_point_of_the_box",
        "test_logits_move_no_further_than_constants_say",
        "test_no_attack_flips_within_them",
    ),
    "tests/predictions/test_certificate.py": (
        "test_no_attack_flips_within_the_certified_radius",
        "test_nor_where_nothing_is_drawn",
        "test_nor_where_one_row_moves",
    ),
    "tests/predictions/test_gram.py": ("test_an_upper_square_is_above_the_norm_by_little",),
    "tests/predictions/test_steps.py": ("test_first_second_and_third_derivatives_of_every_operation",),
    "tests/predictions/test_travel.py": ("test_the_same_direction_in_all_lists_gives_four_derivatives",),
    "tests/predictions/test_words.py": ("test_the_worst_direction_is_no_better_than_the_gradient_to_second_order",),
    "tests/report/test_browser.py": ("test_the_page_never_scrolls_sideways",),
    "tests/report/test_drawing.py": (
        "test_every_panel_is_drawn_and_follows_the_page",
        "test_letters_can_be_read_on_a_telephone",
        "test_words_are_taken_literally",
    ),
    "tests/report/test_single.py": (
        "test_a_broken_promise_is_the_first_thing_said",
        "test_everything_a_run_leaves_is_there_whatever_its_kind",
    ),
    "tests/runs/sweep/test_launchers.py": ("test_every_value_of_a_wandb_sweep_composes",),
    "tests/runs/test_memory.py": (
        "test_atoms_of_an_attack_are_never_too_few",
        "test_every_task_on_layers_is_estimated_first",
    ),
    "tests/soundness/test_check.py": (
        "test_a_certified_radius_is_attacked",
        "test_every_function_of_the_table_is_compared",
        "test_functions_of_the_library_are_judged_exactly_too",
        "test_weights_that_their_precision_does_not_hold_are_unknown_for_a_reason_and_not_by_an_accident",
    ),
    "tests/soundness/test_exact.py": (
        "test_changes_and_derivatives_agree_with_float64",
        "test_mpmath_finds_the_same",
        "test_slivers_that_are_whole_tokens_are_moves",
        "test_the_layer_is_within_its_stated_rounding",
    ),
    "tests/soundness/test_exact_comparisons.py": ("test_the_replica_changes_as_the_layer_does",),
    "tests/soundness/test_task.py": ("test_wrong_settings_are_refused",),
    "tests/spectral/test_lanczos.py": ("test_exact_when_the_whole_space_is_searched",),
    "tests/spectral/test_lipschitz.py": (
        "test_adjoint_identity",
        "test_dense_matrix_agrees",
        "test_jvp_is_the_derivative",
        "test_linear",
        "test_samples_do_not_mix",
        "test_split_constant_is_that_of_the_split_measure",
        "test_vjp_is_the_transposed_derivative",
    ),
    "tests/spectral/test_pairs.py": (
        "test_agrees_with_the_dense_matrix",
        "test_norm_of_the_norms_dominates_the_constant",
        "test_one_head_is_reduced_by_qr_and_blocks_of_columns_do_not_matter",
    ),
    "tests/spectral/test_triplets.py": ("test_weighted_layers",),
    "tests/tasks/test_predict.py": ("test_wrong_settings_are_one_sentence",),
    "tests/test_budget.py": ("test_the_slope_never_points_out_and_is_the_gradient_inside",),
    "tests/test_cli.py": (
        "test_rows_that_cannot_be_read_are_one_sentence",
        "test_wrong_input_is_one_sentence_and_status_two",
    ),
    "tests/test_devices.py": (
        "test_attacks",
        "test_local_lipschitz",
        "test_value_and_derivatives",
    ),
    "tests/test_mutation.py": ("test_a_mutant_fits_in_one_place_and_names_tests_that_exist",),
    "tests/test_run.py": (
        "test_attack_on_small_random_models",
        "test_other_attacks",
        "test_studies_of_a_single_head_leave_everything_a_run_leaves",
    ),
    "tests/through/test_nearest.py": (
        "test_a_flip_is_real_and_inside_its_radius",
        "test_the_distance_to_a_half_space",
    ),
    "tests/through/test_network.py": ("test_other_steps_are_refused",),
    "tests/through/test_readers.py": (
        "test_layers_alone_do_what_they_do_in_the_model_that_reads_slivers",
        "test_logits_can_be_differentiated_in_points_and_masses",
        "test_word_embeddings_are_read_as_ids",
        "test_writing_tokens_as_several_atoms_changes_nothing",
    ),
    "tests/through/test_runs.py": (
        "test_settings_reach_their_attack",
        "test_what_cannot_be_done_is_one_sentence",
        "test_wrong_settings_are_one_sentence",
    ),
    "tests/through/test_victim.py": (
        "test_splitting_is_never_weaker_than_moving_and_in_the_budget",
        "test_the_loss_grows_inside_the_budget",
    ),
}
"""Tests with many parameters that take seconds together, by file."""


def at_first(values: Iterable[Any], count: int) -> list[Any]:
    """All of the values, only the first so many of them by default."""
    return [value if turn < count else pytest.param(value, marks=pytest.mark.slow) for turn, value in enumerate(values)]


def examples(in_ci: int) -> settings:
    """So many examples of hypothesis under its `ci` profile, and in proportion under the others: fewer by default."""
    return settings(max_examples=math.ceil(in_ci * settings().max_examples / CI_EXAMPLES))


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
