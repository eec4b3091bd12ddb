"""Bounds, and what an attack leaves out, altered in one place: the tests have to notice (docs/proofs/README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One alteration: `old` stands once in robust_attn/`file`; with `new` in its place one of `tests` has to fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _altered(file: str, tests: str, *changes: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    """Changes (name, old, new, test functions without "test_", or file::function where they stand elsewhere)."""
    return tuple(
        Mutant(f"{Path(file).stem}.{name}", file, old, new, tuple(_node(tests, test) for test in names.split()))
        for name, old, new, names in changes
    )


def _node(tests: str, name: str) -> str:
    return f"tests/{name}" if "::" in name else f"tests/{tests}::test_{name}"


EXACT = "bounds/test_rounding.py::test_closed_forms_and_hull_are_those_of_interval_arithmetic"
SPECTRAL = "bounds/test_rounding.py::test_spectral_norms_are_upper_values_within_their_margins"
HEADS = "bounds/test_rounding.py::test_norms_of_heads_are_upper_values"
UNKNOWN_WEIGHTS = "attention/test_rounding.py::test_a_tie_that_rounding_breaks_is_not_taken_for_attention_to_one_token"
FALSE = "faults/test_false_certificates.py::test_"
COVERED = "attention/test_rounding.py::test_what_bounds_allow_for_rounding_covers_weights_that_differ_by_as_much"
PULL = "attention/test_rounding.py::test_slopes_that_are_nothing_but_rounding_still_pull"
UNKNOWN_MEANS = "attention/test_rounding.py::test_where_weights_are_unknown_the_hull_holds_between_any_two_means"
HIGHER = "bounds/test_higher.py"
TWO_HEADS = "bounds/test_ball.py::test_two_equal_heads_are_twice_one"
ONE_TOKEN = "bounds/test_ball.py::test_one_token_by_hand"
ADDED = "attention/test_extras.py::test_the_spread_of_a_bias_and_the_radius_of_a_sink_by_hand"
BENT = "the_second_derivative_of_a_query_by_hand"
TWO_TOKENS = "bounds/test_ball.py::test_two_tokens_by_hand"
DRAWN = "what_queries_and_pieces_draw_by_hand"
STATED = "it_is_what_the_proof_states_entry_by_entry"
AGREE = "where_the_values_agree_the_distance_is_what_squares_may_have_lost"
COLUMN = "a_column_is_that_of_the_attention_matrices"
FIRST_LOOK = "the_first_look_goes_five_steps_from_the_best_starts_and_eight_from_all"
LIMITS = "the_limits_of_the_first_look"
QUICK = "of_keys_with_one_coordinate_the_quick_bound_is_the_other_one"
FALLING = "a_row_that_loses_what_it_looks_at_stays_in_the_hull_by_hand"
TENTH = "a_token_that_draws_a_tenth_and_one_that_draws_the_rest_by_hand"
FAR_AWAY = "far_away_the_other_rows_stay_in_the_hull_by_hand"
CONTEXT_BY_HAND = "bounds/test_context.py::test_by_hand_where_queries_do_not_matter"
BALL_OF_PART = "a_part_of_the_path_has_the_slopes_of_the_ball_that_it_is_in"
THREE_ORDERS = "three_orders_where_nothing_else_is_known"
PART_BY_HAND = "what_is_known_of_a_part_by_hand"
KEPT_CURVATURE = "a_curvature_that_is_known_at_the_start_is_not_forgotten"
KNOWN_QUERIES = "a_query_part_that_is_known_to_be_smaller_is_not_looked_at"
ONE_ATTAINS = "no_pair_exceeds_it_and_one_attains_it"

MUTANTS = (
    *_altered(
        "bounds/paper.py",
        "bounds/test_paper.py",
        ("sqrt_3", "math.log(3) + inside", "math.log(2.5) + inside", "discrete_upper_by_hand"),
        ("four_n", "4 * n * ball.key_reach", "3 * n * ball.key_reach", "discrete_upper_by_hand"),
        ("bias", "ball.key_reach**2 + ball", "ball.query_reach**2 + ball", "discrete_upper_with_a_bias_by_hand"),
        ("exponent", "(1 + 3 * exponent).log() + 2 *", "(1 + 3 * exponent).log() +", "mean_field_upper_by_hand"),
        ("hardy", "math.log(2) + (1 + 2 *", "math.log(1) + (1 + 2 *", "masked_mean_field_by_hand"),
        ("lower_exponent", "math.exp(-2 * radius * radius", "math.exp(-radius * radius", "discrete_lower_by_hand"),
        (
            "eighth",
            "float(real.max()) / 8",
            "float(real.max()) / 4",
            "lower_bounds_of_a_positive_matrix_by_hand",
        ),
        ("half", "math.log(gamma / 2 *", "math.log(gamma *", "mean_field_lower_by_hand"),
        (
            "stretch",
            "log_constant + math.log(ball.stretch)",
            "log_constant",
            "bounds/test_setting.py::test_a_budget_per_token_is_stretched_by_the_root_of_the_length",
        ),
    ),
    *_altered(
        "bounds/sharp.py",
        "bounds/test_sharp.py",
        ("query_part", ".sqrt() * row + ball.query_reach", ".sqrt() * row", "unified_by_hand"),
        ("half_of_n", "(1 + math.sqrt(n / 2))", "(1 + math.sqrt(n / 3))", "half_square_by_hand"),
        (
            "pulling",
            "math.log(27 / 32)",
            "math.log(27 / 64)",
            "bounds/test_sharp_mean_field.py::test_sharp_mean_field_by_hand",
        ),
        ("token_max", "1 + ball.key_reach + ball.query_reach", "1 + ball.key_reach", "token_max_by_hand"),
        ("one_key", "1 - lead * math.expm1", "1 - lead / 2 * math.expm1", "one_key_lower_by_hand"),
        ("two_keys", "0.5 * math.log(half)", "0.6 * math.log(half)", "two_key_lower_is_nearly_the_whole_constant"),
    ),
    *_altered(
        "bounds/setting.py",
        "bounds/test_setting.py",
        ("mixing", "torch.exp(-2 * kappa)", "torch.exp(-kappa)", "mixing_by_hand"),
        (
            "a_head",
            "torch.logsumexp(_log_product(norms.value, log_constants), dim=0)",
            "_log_product(norms.value, log_constants).max()",
            "joined_heads_takes_the_smaller_sum",
        ),
        ("root_of_squares", "dim=0) / 2", "dim=0) / 3", "joined_heads_takes_the_smaller_sum"),
        ("radius", " + budget.reach(measure)", "", "radius_covers_the_budget"),
        ("bias_spread", "largest_logit(self.radius) + self.bias_spread", "largest_logit(self.radius)", ADDED),
        ("sink_radius", "key_slope(self.radius) * self.value_radius", "key_slope(self.radius) * self.radius", ADDED),
    ),
    *_altered(
        "bounds/interval.py",
        "bounds/test_interval.py",
        ("margin", "MARGIN = 1 + 5e-11", "MARGIN = 1 - 5e-11", EXACT),
        ("others", "log_others(log_p - shift)", "log_others(log_p)", "interval_softmax_is_attained_at_a_corner"),
        (
            "gershgorin",
            "(ceiling, 2 * alone, favoured)",
            "(ceiling, 1.5 * alone, favoured)",
            "variance_weights_by_hand",
        ),
        (
            "favoured_twice",
            "torch.nn.functional.one_hot(ceiling.argmax(-1), ceiling.shape[-1]).bool()",
            "ceiling == ceiling.amax(-1, keepdim=True)",
            "only_one_atom_is_favoured_where_several_are_equally_heavy",
        ),
        (
            "favour",
            "(rest + top / FAVOUR)",
            "(rest + top)",
            "variance_weights_favour_the_heaviest_atom_where_the_others_are_light",
        ),
        (
            "rest",
            "rest = (1 - floor - top_floor)",
            "rest = (1 - ceiling - top)",
            "variance_weights_of_an_interval_by_hand",
        ),
        ("bilinear_shift", "interaction * (ball.eps * ball.eps) / 2", "interaction * (ball.eps * ball.eps) / 4", EXACT),
        ("query_shift", "+ b**2 * own_inverse", "", EXACT),
        ("motion", "value_deviation=value_spread + value_motion", "value_deviation=value_spread", ONE_TOKEN),
        ("mean_of_values", "value_spread * way) + value_motion", "value_spread * way)", ONE_TOKEN),
        (
            "own_key",
            "query = query + torch.where(own, 0.0, torch.where(own, drawn, 0.0).sum(-1, keepdim=True))",
            "query = query + 0.0",
            f"{HIGHER}::test_a_centred_shift_by_hand",
        ),
        ("centred_bilinear", "(pair + own_reach * mean[..., None])", "pair", f"{HIGHER}::test_a_centred_shift_by_hand"),
        ("slopes", "centred.first + 2 * centred", "centred.first + centred", f"{HIGHER}::test_a_centred_shift_by_hand"),
        ("other_weights", "(kept * deviation**2 + rest)", "(kept * deviation**2)", EXACT),
        (
            "key_slope",
            "data.key_slope + interaction * own_reach",
            "data.key_slope",
            "bounds/test_curvature.py::test_one_head_has_nothing_to_join",
        ),
    ),
    *_altered(
        "bounds/slopes.py",
        "bounds/test_slopes.py",
        ("pull", "** 2 + pull**2).sqrt()", "** 2 + 0 * pull**2).sqrt()", TWO_TOKENS),
        ("rotation", "if even_slopes else norms", "if True else norms", "the_cross_term_stays_with_a_rotation_by_hand"),
        ("heads", "row_norm.sum(-2, keepdim=True) * row_norm", "row_norm**2", TWO_HEADS),
        (
            "values_together",
            "norms.beside_value**2 * at.ceiling",
            "norms.stacked_value**2 * at.ceiling",
            "bounds/test_ball.py::test_heads_that_write_to_one_place_by_hand",
        ),
        ("largest_column", ".amax(-1).sqrt()", ".mean(-1).sqrt()", "columns_by_hand"),
        ("query_blocks", "slopes.blocks + torch.diag_embed(slopes.queries)", "slopes.blocks", "blocks_by_hand"),
    ),
    *_altered(
        "bounds/curvature.py",
        "bounds/test_curvature.py",
        ("key_error", "* own + data.key_error[..., None, None]", "* own", PULL),
        (
            "proportion",
            "self.root * most.sqrt()",
            "self.root * least.sqrt()",
            "heads_together_at_weights_in_proportion",
        ),
        (
            "split",
            "(t + 2 * at.value_deviation",
            "(t + at.value_deviation",
            "the_split_form_is_taken_where_a_far_atom_is_light",
        ),
        (
            "own",
            "(own + beside) * MARGIN",
            "beside * MARGIN",
            "row_sums_are_taken_where_one_atom_draws_nearly_everything",
        ),
        (
            "favoured",
            "beside + with_top / FAVOUR",
            "beside + with_top",
            "the_heaviest_atom_is_favoured_where_it_draws_most_and_lies_near_the_mean",
        ),
        (
            "query_moment",
            "return torch.minimum(each, far.amax(-1) * at.slope_deviation**2)",
            "return torch.minimum(each, far.amin(-1) * at.slope_deviation**2)",
            "third_moment_of_the_query_dominates",
        ),
        ("moving_values", "apart = (2 * u *", "apart = (1 * u *", "terms_of_two_tokens_by_hand"),
        ("mixed_third", "at.value_deviation, 2 * third)", "at.value_deviation, third)", "terms_of_two_tokens_by_hand"),
        ("bilinear", "2 * at.value_deviation, 2", "1 * at.value_deviation, 2", "terms_of_two_tokens_by_hand"),
        ("balance", "(2 * _positive(balance))", "(4 * _positive(balance))", "terms_of_two_tokens_by_hand"),
        ("any_head", "at.variance.amax(-3)", "at.variance.amin(-3)", "terms_of_two_tokens_by_hand"),
        ("any_head_moves", "u.amax(-3) * norms", "u.amin(-3) * norms", "terms_of_two_tokens_by_hand"),
        (
            "both_heads",
            "norms.beside_value), weighted",
            "norms.stacked_value), weighted",
            "joining_heads_that_write_to_one_place_by_hand",
        ),
        ("own_floor", "(1 - 2 * at.floor).abs()", "(1 - 2 * u).abs()", "row_sums_of_an_interval_by_hand"),
        ("drift", "(together.root + drift) ** 2", "together.root**2", "one_head_has_nothing_to_join"),
        ("joined_cross_terms", "values.square().sum(-2).sqrt()", "values.amax(-2)", TWO_HEADS),
    ),
    *_altered(
        "bounds/bent.py",
        "bounds/test_bent.py",
        ("constant", "curvature = CURVATURE * gain", "curvature = 0.5 * gain", BENT),
        ("reach", "(self.given - weight * reach)", "(self.given + 0 * reach)", BENT),
    ),
    *_altered(
        "bounds/ball.py",
        "bounds/test_ball.py",
        ("hull_reach", "(distance + norms.value[:, None] * reach)", "(distance + 0 * reach)", "hull_by_hand"),
        ("hull_margin", "terms.hull_rows * MARGIN", "terms.hull_rows / MARGIN", EXACT),
    ),
    *_altered(
        "bounds/together.py",
        "bounds/test_together.py",
        ("column_norms", "columns = pairs.norm(dim=-2)", "columns = pairs.norm(dim=-1)", "column_norms_by_hand"),
        ("own", "rows.own * ball.inverse.sqrt()", "rows.own * ball.inverse.sqrt() / 2", "column_norms_by_hand"),
        ("form", "(pairs + form / (2 *", "(pairs + form / (4 *", "the_simplex_by_hand"),
        ("tangent", "balance / 2, 0.0)", "balance / 4, 0.0)", "the_simplex_by_hand"),
        (
            "mixed",
            "form = 2 * rows.cross_rows",
            "form = rows.cross_rows",
            "three_rows_that_mix_with_all_others_by_hand",
        ),
        (
            "weights",
            "pairs = ball.weights.sqrt()[..., None] * rows",
            "pairs = ball.weights[..., None] * rows",
            "bounds/test_ball.py::test_equal_masses_differ_from_no_masses_by_the_root_of_the_length",
        ),
    ),
    *_altered(
        "bounds/cumulants.py",
        "bounds/test_cumulants.py",
        (
            "others",
            "math.factorial(len(others)) * alike(count, (own,), others), own, others)\n        for own in range(1,",
            "math.factorial(len(others)) * alike(count, (own,), others), own, others)\n        for own in range(2,",
            "of_three_and_four_by_hand",
        ),
        ("apart", "math.factorial(len(others) + 1)", "math.factorial(len(others))", "they_add_up_to_the_cumulant"),
        ("all", "math.factorial(len(blocks) - 1)", "1", "all_of_them_by_hand"),
        (
            "alike",
            "ways //= math.factorial(times)",
            "ways //= 1",
            "blocks_of_one_size_are_not_told_apart_within_a_group",
        ),
    ),
    *_altered(
        "bounds/higher.py",
        HIGHER,
        (
            "pull",
            "found + each.weight * spreads[each.own - 1] * slopes.nu * block",
            "found",
            "shares_of_the_third_order_by_hand",
        ),
        (
            "pulled_apart",
            "slopes.steepest ** (first - 2) * slopes.blocks(others)",
            "slopes.blocks(others)",
            "shares_of_the_fifth_order_by_hand",
        ),
        ("mean", "at.logit_slope + mean[..., None]", "at.logit_slope", "row_slopes_by_hand"),
        ("bent", "bilinear = 2 * norms", "bilinear = 1 * norms", "row_slopes_by_hand"),
        (
            "split",
            "2 * share.spread",
            "1 * share.spread",
            "the_split_form_of_key_weights_is_taken_where_a_far_atom_is_light",
        ),
        (
            "young",
            "(1 + 1 / t) * share.mean",
            "(1 / t) * share.mean",
            "the_split_form_of_key_weights_is_taken_where_a_far_atom_is_light",
        ),
        ("pulled", " + share.pull[..., None] * at.variance", "", "key_weights_by_hand"),
        ("moving", "strength=order / 2 *", "strength=order / 3 *", "shares_of_the_third_order_by_hand"),
        (
            "opposite",
            "torch.maximum(slopes.steepest**2, pairs * slopes.nu**2)",
            "slopes.nu**2",
            "shares_of_the_fourth_order_by_hand",
        ),
        (
            "others",
            "if each.others not in ((), (2,))]",
            "if each.others not in ((), (2,), (3,))]",
            "shares_of_the_fifth_order_by_hand",
        ),
        ("bilinear", "order * (order - 1) * each.weight", "order * each.weight", "shares_of_the_third_order_by_hand"),
        (
            "moving_slopes",
            "order * (order - 1) * (order - 2) * each.weight",
            "order * (order - 1) * each.weight",
            "shares_of_the_fourth_order_by_hand",
        ),
        (
            "several",
            "times * all_partings(bent + straight + 1)",
            "all_partings(bent + straight + 1)",
            "shares_of_the_fourth_order_by_hand",
        ),
        ("mixed", "share.bilinear, 2 * mixed)", "share.bilinear, mixed)", "mixed_rows_of_two_tokens_by_hand"),
        ("reach", "return ball.reach[..., data.rows, None] *", "return", "mixed_rows_of_two_tokens_by_hand"),
    ),
    *_altered(
        "certificates/sampled_orders.py",
        "certificates/test_sampled_orders.py",
        ("factor", " * chain_factor(len(values), order, probability)", "", "it_fails_no_more_often_than_stated"),
        (
            "share",
            "self.pairs.failure_probability / (2 * len(self.measure.points))",
            "self.pairs.failure_probability / 2",
            "a_batch_shares_the_probability_and_each_sample_is_drawn_once",
        ),
        (
            "orders",
            "pairs.failure_probability / len(choices)",
            "pairs.failure_probability",
            "two_pairs_of_a_tuple_count_twice",
        ),
        ("overlap", "2: [(0, 1), (2, 3)]", "2: [(0, 1), (1, 2)]", "no_two_choices_of_an_order_share_a_displacement"),
    ),
    *_altered(
        "certificates/higher_orders.py",
        "certificates/test_higher_orders.py",
        ("orders", "eps**order * upper for", "eps**order * upper / 2 for", "it_is_made_of_three_orders"),
        ("high", "enumerate(uppers, start=2)", "enumerate(uppers[:1], start=2)", "it_is_made_of_six_orders"),
        ("power", "float(size[sample]) / end**order", "float(size[sample]) / end**2", "it_is_made_of_three_orders"),
        ("ball", "bisect_left(PATH, end)", "max(0, bisect_left(PATH, end) - 1)", BALL_OF_PART),
        ("slope", "eps * float(ball.closed_form[sample])", "0.9 * eps * float(ball.closed_form[sample])", BALL_OF_PART),
        ("curvature", "eps * eps * float(ball", "eps * eps / 2 * float(ball", BALL_OF_PART),
    ),
    *_altered(
        "certificates/path.py",
        "certificates/test_path.py",
        ("shares", "((1 - start) ** order - (1 - end) ** order)", "(end - start) ** order", "shares_by_hand"),
        ("factorial", "math.factorial(order)", "math.factorial(order + 1)", "a_constant_is_integrated_exactly"),
        ("power", "power *= step / order", "power *= step / (order + 1)", THREE_ORDERS),
        ("taylor", "taylor += value * power", "taylor += 0.9 * value * power", KEPT_CURVATURE),
        ("limit", "taylor + limit * power", "taylor + limit * power / 2", PART_BY_HAND),
        (
            "kept",
            "known = [_at_most(known[order:], part.limits[order:], step) for order in range(len(known))]",
            "known = list(known)",
            KEPT_CURVATURE,
        ),
        ("unknown", "        return math.nan\n", "        pass\n", "what_is_not_a_number_stays_unknown"),
    ),
    *_altered(
        "attention/approximate.py",
        "attention/test_approximate.py",
        ("product", "+ self.error @ (other", "+ 0 * self.error @ (other", "products_by_hand"),
        ("entries", "+ self.error * (other", "+ 0 * self.error * (other", "products_by_hand"),
        ("rounded", "brought + error)", "brought)", "rounding_is_within_the_error"),
        ("weights", "part * field.largest)", "0 * field.largest)", "weights_and_means_are_within_the_error"),
    ),
    *_altered(
        "attention/derivatives.py",
        "attention/test_derivatives.py",
        (
            "symmetric",
            "other.q @ one.k.transposed()",
            "one.q @ other.k.transposed()",
            "it_is_what_nested_forward_mode_says",
        ),
        (
            "moved",
            "moved[each].v) for each in chosen",
            "moved[chosen[0]].v) for each in chosen",
            "it_is_what_nested_forward_mode_says",
        ),
        ("logs", "slope[0] - mean if slope", "slope[0] if slope", "it_is_what_nested_forward_mode_says"),
        ("blocks", "range(len(others))", "range(1, len(others))", "it_is_what_nested_forward_mode_says"),
    ),
    *_altered(
        "bounds/rows.py",
        "bounds/test_rows.py",
        ("queries", "blocks, 0.0).amax(-1)", "blocks, 0.0).amin(-1)", "known_rows_bound_what_queries_do_alone"),
        ("mean", "difference = points - mean", "difference = points", "spread_by_hand"),
        (
            "gram_scale",
            "keys = layer.scale * layer.key[groups]",
            "keys = layer.key[groups]",
            "slopes_agree_with_autograd",
        ),
        (
            "rotation",
            "gram(layer.rotary.rotate_back(queries, position))",
            "gram(queries)",
            "gram_of_the_key_slopes_agrees_with_autograd",
        ),
        (
            "query_blocks",
            "covariance + both + points, torch.inf).sum(-2)",
            "covariance + both + points, torch.inf).amax(-2)",
            TWO_HEADS,
        ),
        ("points", "self.distance + 2 * error[..., None, None]", "self.distance", COVERED),
        (
            "deviation",
            "self.deviation + error[..., None])",
            "self.deviation)",
            "points_that_are_known_up_to_an_error_by_hand",
        ),
        (
            "covariance",
            "slopes.deviation * (weight + weight**2)",
            "slopes.deviation * 0",
            "what_a_query_block_allows_for_by_hand",
        ),
        (
            "unknown_weights",
            "unknown = ~(error <= KNOWN_LOGITS)",
            "unknown = error.isnan()",
            "logits_that_err_too_much_leave_equal_weights_off_by_anything",
        ),
    ),
    *_altered(
        "spectral/run_upper.py",
        "spectral/test_run_upper.py",
        ("density", "math.pi / (2 * dimension)", "2 * math.pi / dimension", "the_smallest_start_by_hand"),
        ("limit", "limit = 1 / Decimal(smallest) ** 2", "limit = 1 / Decimal(smallest)", "one_step_by_hand"),
        ("recurrence", "(value * left - alpha * right) / beta", "(value * left) / beta", "one_step_by_hand"),
        (
            "exhausted",
            "if min(alpha, beta) <= Decimal(EXHAUSTED) * largest:",
            "if min(alpha, beta) == 0:",
            "where_the_space_is_exhausted_or_numbers_are_none_nothing_is_promised",
        ),
        (
            "before",
            "(value * right - before * left) / alpha",
            "(value * right) / alpha",
            "the_largest_value_is_never_excluded_by_a_start_with_its_component",
        ),
    ),
    *_altered(
        "spectral/lanczos.py",
        "spectral/test_lanczos.py",
        ("exponent", "/ (2 * steps - 1)", "/ (2 * steps)", "upper_factor_by_hand"),
        ("constant", "KW_CONSTANT = 1.648", "KW_CONSTANT = 1.0", "upper_factor_by_hand"),
        (
            "samples",
            "failure_probability / max(1, math.prod(operator.domain[:-2]))",
            "failure_probability",
            "samples_share_the_probability",
        ),
        (
            "fresh",
            "secrets.randbits(SEED_BITS)",
            "0",
            "spectral/test_lipschitz.py::test_a_start_is_drawn_anew_and_can_be_repeated",
        ),
        (
            "bits",
            "np.random.default_rng(seed)",
            "np.random.default_rng(seed % 2**32)",
            "spectral/test_lipschitz.py::test_every_bit_of_a_seed_counts",
        ),
        ("margin", "(factor * (1 + margin))", "(factor * (1 - margin))", "exact_when_the_whole_space_is_searched"),
    ),
    *_altered(
        "spectral/matrix_norms.py",
        "spectral/test_matrix_norms.py",
        ("svd_margin", "SVD_MARGIN = 1e-11", "SVD_MARGIN = -1e-11", SPECTRAL),
        ("gram_iteration", "safe.log() / 2**step", "safe.log() / 3**step", SPECTRAL),
        ("confirmed", "(failed == 0) &", "(failed == failed) &", "a_guess_that_is_too_small_is_not_confirmed"),
        (
            "product",
            "return found + product_error(left, right, unit=unit)",
            "return found",
            FALSE + "values_that_cancel_in_the_output_projection_are_not_taken_for_none",
        ),
    ),
    *_altered(
        "spectral/between.py",
        "spectral/test_between.py",
        ("conjugate", "torch.complex(cosine, -sine)", "torch.complex(cosine, sine)", ONE_ATTAINS),
        (
            "apart",
            "+ apart * everywhere",
            "",
            f"{ONE_ATTAINS} tables_that_do_not_depend_on_the_distance_alone_are_covered",
        ),
        ("scale", "largest = abs(layer.scale) *", "largest = layer.scale *", ONE_ATTAINS),
        ("seen", "pairs[~hidden], gaps[~hidden]", "pairs[hidden], gaps[hidden]", ONE_ATTAINS),
        ("rounded", "(found + rounded)", "found", "rounding_is_allowed_for_unless_none_is_asked"),
        ("largest", "norm_upper(left @", "0.9 * norm_upper(left @", "a_quarter_turn_by_hand"),
        (
            "chunks",
            "found = torch.maximum(found,",
            "found = torch.maximum(0 * found,",
            "some_distances_at_a_time_find_the_same",
        ),
    ),
    *_altered(
        "spectral/norms.py",
        "spectral/test_norms.py",
        (
            "bias",
            "self.interaction * radius + self.key_slope_at_zero + self.query",
            "self.interaction * radius + self.query",
            "hand_computed_head_norms",
        ),
        ("stacked", "(key_factor @ query).flatten(0, 1)", "(key_factor @ query)[0]", HEADS),
    ),
    *_altered(
        "certificates/followed.py",
        "certificates/test_followed.py",
        ("order", "enumerate(higher, 2)", "enumerate(higher, 3)", "two_equal_tokens_by_hand"),
        ("rest", "radius * first.upper + beyond", "radius * first.upper", "the_rest_is_part_of_it"),
    ),
    *_altered(
        "certificates/measures.py",
        "certificates/test_measures.py",
        (
            "support",
            "if budget.support is None:",
            "if budget.radius < 0:",
            FALSE + "without_a_support_nothing_is_promised_to_any_measure",
        ),
    ),
    *_altered(
        "certificates/layer.py",
        "certificates/test_layer.py",
        (
            "remainder",
            "eps * values.lipschitz_upper + remainder",
            "eps * values.lipschitz_upper",
            "second_order_with_confidence_is_the_given_constant_plus_the_same_curvature",
        ),
        ("not_a_number", " and math.isfinite(certified))", ")", "verdicts"),
        ("rounding", "observed - rounding > certified", "observed + rounding > certified", "verdicts"),
        (
            "broken",
            "if not usable or broken:",
            "if not usable:",
            "one_bound_that_is_no_number_leaves_nothing_certified",
        ),
        ("hull_radius", "hull_rows=path[-1]", "hull_rows=path[0]", "the_hull_in_each_norm_by_hand"),
        ("hull_weights", "(budget.weights(measure) * rows**2)", "(rows**2)", "the_hull_in_each_norm_by_hand"),
        (
            "observed_rounding",
            "OBSERVED_ROUNDING = 0.1",
            "OBSERVED_ROUNDING = 10.0",
            FALSE + "a_comparison_that_rounding_may_decide_is_unknown",
        ),
        (
            "mostly_rounding",
            "MOSTLY_ROUNDING = 2.001",
            "MOSTLY_ROUNDING = 1e300",
            FALSE + "values_that_cancel_in_the_output_projection_are_not_taken_for_none",
        ),
    ),
    *_altered(
        "spectral/lipschitz.py",
        "spectral/test_lipschitz.py",
        ("known", "(known <= each[0].upper).all()", "(known <= each[0].upper).any()", KNOWN_QUERIES),
        ("more", "(known <= each[0].upper).all()", "(known <= 3 * each[0].upper).all()", KNOWN_QUERIES),
        ("off", ".upper for estimate in each]) + off", ".upper for estimate in each])", UNKNOWN_WEIGHTS),
        (
            "precision",
            "layer.to(torch.float64).linearize(measure.to(torch.float64))",
            "layer.linearize(measure)",
            FALSE + "a_float32_layer_is_certified_in_float64",
        ),
    ),
    *_altered(
        "spectral/derivative_error.py",
        "attention/test_rounding.py",
        (
            "weights",
            "2 * part[..., None] * output",
            "0 * part[..., None] * output",
            "each_part_of_the_derivative_is_covered_where_it_is_nearly_all",
        ),
        (
            "queries",
            "3 * part[..., None] * sizes.scale",
            "0 * part[..., None] * sizes.scale",
            "each_part_of_the_derivative_is_covered_where_it_is_nearly_all",
        ),
        ("unknown", "unknown.any(-1), torch.inf", "unknown.any(-1), 0.0", UNKNOWN_WEIGHTS),
    ),
    *_altered(
        "attention/rounding.py",
        "attention/test_rounding.py",
        (
            "value",
            "(out + 2) * values + 20) * sizes.output",
            "(out + 2) * values + 20) * 0 * sizes.output",
            FALSE + "values_far_from_the_origin_are_known_up_to_rounding_alone",
        ),
        ("logit", "logit=logit_error(layer, measure, unit=unit) + softmax", "logit=softmax", UNKNOWN_WEIGHTS),
        (
            "query_slope",
            "query_slope=unit * (n",
            "query_slope=0 * unit * (n",
            "what_float32_finds_errs_by_no_more_than_stated",
        ),
        (
            "key_slope",
            "key_slope=unit * (2",
            "key_slope=0 * unit * (2",
            "what_float32_finds_errs_by_no_more_than_stated",
        ),
        (
            "range",
            "(lightest >= NEGLIGIBLE_MASS) & known",
            "(lightest >= NEGLIGIBLE_MASS)",
            "sizes_that_floats_cannot_square_are_told",
        ),
    ),
    *_altered(
        "attention/layer.py",
        "attention/test_layer.py",
        (
            "scale",
            "return abs(self.scale) *",
            "return self.scale *",
            FALSE + "a_negative_scale_bounds_as_much_as_a_positive_one",
        ),
    ),
    *_altered(
        "attention/layer.py",
        "bounds/test_setting.py",
        ("rotary", "self.rotary.stretch**2", "self.rotary.stretch", "a_scaled_rotation_scales_the_logits_twice"),
    ),
    *_altered(
        "bounds/interval.py",
        "bounds/test_interval.py",
        (
            "logit_error",
            "torch.minimum(pair, alone)) + data.logit_error[..., None, None]",
            "torch.minimum(pair, alone))",
            "weights_of_logits_that_are_known_up_to_an_error_are_between_floor_and_ceiling",
        ),
    ),
    *_altered(
        "bounds/ball.py",
        "bounds/test_ball.py",
        (
            "unknown_mean",
            "(1 + torch.expm1(2 * data.logit_error).clamp_max(1.0))",
            "(1 + 0 * data.logit_error)",
            UNKNOWN_MEANS,
        ),
    ),
    *_altered(
        "bounds/bound.py",
        "bounds/test_bound.py",
        ("comparator", " and not self.comparator", "", "lower_bounds_comparators_and_inapplicable_ones_never_certify"),
        ("side", " and self.side is Side.UPPER", "", "lower_bounds_comparators_and_inapplicable_ones_never_certify"),
    ),
    *_altered(
        "bounds/pieces.py",
        "bounds/test_pieces.py",
        ("reach", "least = (1 - SLACK) / context", "least = 2 / context", "bounds/test_context.py::test_reach_by_hand"),
        ("inverse", "(field**2 * self.inverse)", "(field**2)", DRAWN),
        ("drift", "torch.maximum(ceiling - rows.floor, rows.ceiling - floor)", "ceiling - rows.ceiling", DRAWN),
        ("raised", "raised = rows.ceiling * rise", "raised = rows.ceiling", DRAWN),
        ("lowered", "(rise * (1 + bent) * MARGIN)", "MARGIN", DRAWN),
        ("far_slope", "rows.key_slope + norms.interaction[:, None, None] * far", "rows.key_slope + 0 * far", DRAWN),
        ("second", "top * psi_2(farthest)", "psi_2(farthest)", DRAWN),
        ("first", "top * psi_1(farthest)", "psi_1(farthest)", DRAWN),
        ("excess", "torch.maximum(torch.expm1(fall), ", "torch.minimum(torch.expm1(fall), ", DRAWN),
        ("motion", "pieces.quadratic(ceiling * top).sqrt()", "pieces.quadratic(ceiling).sqrt()", DRAWN),
        ("scaled", "+ self.growth * moved + scaled", "+ self.growth * moved", DRAWN),
        ("grown", "self.growth * moved + scaled", "moved + scaled", DRAWN),
    ),
    *_altered(
        "bounds/pieces_change.py",
        "bounds/test_pieces_change.py",
        ("means", "rows.slope) + means + value", "rows.slope) + value", "the_derivative_of_a_query_by_hand"),
        ("moving", "+ value * slope\n", "\n", "the_derivative_of_a_query_by_hand"),
        ("own", "both + rows.value_deviation * rows.slope_deviation", "both", "the_derivative_of_a_query_by_hand"),
        ("far", "2 * hull / last + own", "hull / last + own", "a_long_way_is_held_by_the_hull"),
        ("bent", "_columns(masses[:, None] * bent**2", "_columns(0 * masses[:, None] * bent**2", CONTEXT_BY_HAND),
        ("scaled", "_columns(masses[:, None] * scaled", "_columns(0 * masses[:, None] * scaled", CONTEXT_BY_HAND),
        ("moved", "+ torch.minimum(apart, together)", "", CONTEXT_BY_HAND),
        ("drawing", "weight * at.second * rows.value", "weight * rows.value", CONTEXT_BY_HAND),
        (
            "held",
            "(masses * torch.where(held, away, 0.0).sum(0) ** 2).sum()",
            "masses.sum() * 0",
            "a_held_head_costs_its_hull_and_its_linear_part",
        ),
    ),
    *_altered(
        "bounds/one_token.py",
        "bounds/test_one_token.py",
        ("reach", "budget.radius * weights.clamp_min(SEEN).rsqrt()", "budget.radius / weights.clamp_min(SEEN)", TENTH),
        ("padding", "torch.where(weights > 0, budget.radius", "torch.where(weights >= 0, budget.radius", STATED),
        ("range", "found.each.fill_(torch.nan)", "pass", "sizes_that_floats_cannot_speak_of_are_not_a_number"),
        ("hull_reach", "self.reach.max()", "self.reach.min()", TENTH),
        ("hull_value", "self.farthest + self.norms.value[:, None] * self.reach.max()", "self.farthest", TENTH),
        ("hull_weights", "(self.weights * rows**2).sum().sqrt()) * M", "(rows**2).sum().sqrt()) * M", TENTH),
        ("position", "measure.positions[token].expand(measure.positions.shape)", "measure.positions", STATED),
        ("sign", "abs(layer.scale) * (turned", "layer.scale * (turned", TENTH),
        ("key_slope", ".norm(dim=-1) + self.error.key_slope[:, None]", ".norm(dim=-1)", STATED),
        ("own_row", "rows[token] = self._own(slice(token, token + 1))[0]", "rows[token] *= 1", TENTH),
        ("weights", "total = (self.weights * rows**2)", "total = (rows**2)", STATED),
        (
            "enough",
            "if not float(self.each[token]) > top:",
            "if True:",
            "no_displacement_of_one_token_exceeds_its_bound",
        ),
        ("every_sign", "abs(layer.scale) * stretch", "layer.scale * stretch", TENTH),
        (
            "every_stretch",
            "layer.scale) * stretch * key",
            "layer.scale) * key",
            "a_rotation_that_only_stretches_makes_queries_and_keys_longer",
        ),
        ("every_key", ".sqrt()[layer.head_groups]", "[layer.head_groups]", TENTH),
        ("every_key_slope", "slope + self.error.key_slope[:, None], torch", "slope, torch", QUICK),
        ("every_own", "= self._own(rows)", "*= 1", TENTH),
        ("every_weights", "(self.weights[rows, None] * change**2)", "(change**2)", TENTH),
        ("farthest", "(1 + self.error.weight.clamp_max(1.0))[:, None]", "1.0", STATED),
        ("lost", "clamp_min(0.0) + lost", "clamp_min(0.0)", AGREE),
        ("lost_squared", "(size + own) ** 2", "(size + own)", AGREE),
        ("value_error", "squared.sqrt() + 2 * self.error.value[:, None, None]", "squared.sqrt()", STATED),
        ("mean_error", " + part.clamp_max(1.0) * farthest", "", STATED),
        ("weight_error", "(p * (1 + part)).clamp", "p.clamp", STATED),
        ("underflow", ".clamp(SEEN, 1.0)", ".clamp(0.0, 1.0)", "a_weight_too_small_for_a_float_can_still_rise"),
        ("no_more_than_one", ".clamp(SEEN, 1.0)", ".clamp_min(SEEN)", STATED),
        ("end", "torch.maximum(farthest, distance + value * reach)", "distance + value * reach", FALLING),
        ("end_reach", "torch.maximum(farthest, distance + value * reach)", "farthest", FAR_AWAY),
        ("least", "change = torch.minimum(certain(", "change = torch.maximum(certain(", TENTH),
        ("moving", " + after * value * reach", "", TENTH),
        ("own_value_error", "norm(dim=-1) + 2 * self.error.value[:, None]\n", "norm(dim=-1)\n", STATED),
        ("own_mean_error", "self.error.weight.clamp_max(1.0)[:, None] * self.far", "0 * self.far", STATED),
        ("own_hull", "torch.maximum(self.farthest[:, index], distance", "(distance", TENTH),
        ("own_reach", "distance + self.norms.value[:, None] * self.reach[index]", "distance", TENTH),
        ("fall", "-torch.expm1(-turn)", "turn", TENTH),
        ("rising", "p + (1 - p) * left, (1", "p + left, (1", TENTH),
        ("falling", "(1 - p) + p * left", "1 + p * left", TENTH),
        ("up_alone", "torch.maximum(p * fall / rising, p * fall / falling)", "(p * fall / rising)", TENTH),
        ("down_alone", "torch.maximum(p * fall / rising, p * fall / falling)", "(p * fall / falling)", TENTH),
        ("after", "(p / rising).clamp_max(1.0)", "p", TENTH),
    ),
    *_altered(
        "attention/jacobian.py",
        "attention/test_jacobian.py",
        ("column_mass", "(logits + measure.masses[token].log() - self", "(logits - self", COLUMN),
        ("column_mask", "hidden[:, 0] | ~measure.present[token]", "~measure.present[token]", COLUMN),
        ("column_padding", "hidden[:, 0] | ~measure.present[token]", "hidden[:, 0]", COLUMN),
        ("column_bias", "positions, measure.positions[token]]", "positions[token], measure.positions]", COLUMN),
    ),
    *_altered(
        "attacks/sliver.py",
        "attacks/test_sliver.py",
        ("first_starts", "LOOKS = ((16, 5,", "LOOKS = ((17, 5,", FIRST_LOOK),
        ("first_steps", "LOOKS = ((16, 5,", "LOOKS = ((16, 6,", FIRST_LOOK),
        ("first_limit", "5, 0.3)", "5, 0.33)", LIMITS),
        ("second_starts", "(None, 8,", "(22, 8,", FIRST_LOOK),
        ("second_steps", "(None, 8,", "(None, 7,", FIRST_LOOK),
        ("second_limit", "8, 0.55)", "8, 0.5)", LIMITS),
        ("every_look", "return any(change < hope", "return all(change < hope", LIMITS),
        ("ahead", "change < hope * ahead for", "change < hope for", LIMITS),
        ("best_start", "yield float(reached.max())", "yield float(reached.mean())", FIRST_LOOK),
        (
            "best_ranked",
            "min(count or len(values), len(values)))",
            "min(count or 99, len(values)), -1, False)",
            FIRST_LOOK,
        ),
        ("look", "ahead is not None and _hopeless(", "ahead is not None and not _hopeless(", LIMITS),
    ),
    *_altered(
        "bounds/context.py",
        "bounds/test_context.py",
        ("queries", " + pieces.eps * torch.cat(queries).max()", "", "queries_that_move_count"),
        ("linear", "budget.radius * constant.upper + rest", "rest", "by_hand_where_queries_do_not_matter"),
        ("closed_form", "budget.radius * constant.closed_form + rest", "rest", "by_hand_where_queries_do_not_matter"),
    ),
)
