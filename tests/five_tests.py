"""Which tests attack which bound, five for each (docs/proofs/README.md#how-a-bound-is-tested)."""

from dataclasses import dataclass

PAPER, SHARP, LAWS = "bounds/test_paper.py", "bounds/test_sharp.py", "bounds/test_sharp_laws.py"
MEAN_FIELD = "bounds/test_sharp_mean_field.py"
CONTEXT = "bounds/test_context.py"
SPLITTING, SPLIT_LOCAL = "bounds/test_splitting.py", "bounds/test_splitting_local.py"
BALL, SLOPES, CERTIFICATE = "bounds/test_ball.py", "bounds/test_slopes.py", "certificates/test_layer.py"
HIGHER, ORDERS = "bounds/test_higher.py", "certificates/test_higher_orders.py"
DERIVED, STEEPEST = "test_no_derivative_exceeds_a_constant", "test_the_steepest_tokens_exceed_no_constant"
SCALED, MOVED = "test_scaling_laws", "test_neither_random_nor_ascended_moves_exceed_a_bound"
"""Names of the laws of tests/bounds/laws.py, which test classes inherit."""


@dataclass(frozen=True)
class FiveTests:
    """Domination at random and under ascent, a scaling law, a value by hand, a case that is solved exactly."""

    at_random: str
    under_ascent: str
    scaling: str
    by_hand: str
    solved: str


def _in(file: str, *names: str) -> list[str]:
    return [f"{file}::test_{name}" for name in names]


def _laws(suite: str, *names: str) -> list[str]:
    return [f"{suite}::{name}" for name in names]


def _constant(suite: str) -> list[str]:
    return _laws(suite, DERIVED, STEEPEST, SCALED)


def _papers_upper(by_hand: str) -> FiveTests:
    return FiveTests(*_constant(f"{PAPER}::TestUpperBounds"), *_in(PAPER, by_hand, "no_interaction_is_solved_exactly"))


def _split(by_hand: str, solved: str) -> FiveTests:
    """Free splits at random are ascended in the same test."""
    return FiveTests(*_laws(f"{SPLITTING}::TestAnyMeasure", MOVED, MOVED, SCALED), by_hand, *_in(SPLITTING, solved))


def _context() -> FiveTests:
    """Pieces at random are ascended in the same test."""
    return FiveTests(
        *_laws(f"{CONTEXT}::TestPieces", MOVED, MOVED, SCALED),
        *_in(
            CONTEXT,
            "by_hand_where_queries_do_not_matter",
            "without_interaction_the_change_is_that_of_the_mean_and_attained",
        ),
    )


FIVE_TESTS = {
    "paper.discrete": _papers_upper("discrete_upper_by_hand"),
    "paper.mean_field": _papers_upper("mean_field_upper_by_hand"),
    "paper.masked_mean_field": _papers_upper("masked_mean_field_by_hand"),
    "paper.discrete_lower": FiveTests(
        *_in(
            PAPER,
            "the_stated_tokens_attain_the_discrete_lower_bound_inside_the_ball",
            "ascent_from_random_starts_reaches_the_discrete_lower_bound",
            "scaling_laws_of_the_lower_bounds",
            "discrete_lower_by_hand",
            "the_discrete_lower_bound_is_exact_where_one_token_draws_everything",
        )
    ),
    "paper.mean_field_lower": FiveTests(
        *_in(
            PAPER,
            "two_atoms_attain_the_mean_field_lower_bound",
            "ascent_over_the_masses_exceeds_the_mean_field_lower_bound_and_not_the_upper_one",
            "scaling_laws_of_the_lower_bounds",
            "mean_field_lower_by_hand",
            "the_mean_field_lower_bound_is_exact_to_leading_order",
        )
    ),
    "sharp.unified": FiveTests(
        *_constant(f"{SHARP}::TestUpperBounds"),
        *_in(SHARP, "unified_by_hand", "no_interaction_is_solved_exactly"),
    ),
    "sharp.half_square": FiveTests(
        *_constant(f"{SHARP}::TestUpperBounds"),
        *_in(SHARP, "half_square_by_hand"),
        *_in(LAWS, "half_square_without_interaction"),
    ),
    "sharp.mean_field": FiveTests(
        *_laws(f"{SHARP}::TestUpperBounds", DERIVED),
        *_in(MEAN_FIELD, "ascent_over_points_and_masses_does_not_exceed_the_sharp_mean_field_bound"),
        *_laws(f"{SHARP}::TestUpperBounds", SCALED),
        *_in(MEAN_FIELD, "sharp_mean_field_by_hand", "sharp_mean_field_without_interaction_is_exact"),
    ),
    "sharp.one_key_lower": FiveTests(
        *_in(SHARP, "the_stated_tokens_attain_the_lower_bounds_inside_the_ball"),
        *_in(LAWS, "ascent_from_random_starts_reaches_the_lower_bounds_and_stays_below_the_upper_ones"),
        *_in(SHARP, "scaling_laws_of_lower_bounds", "one_key_lower_by_hand"),
        *_in(LAWS, "the_one_key_bound_is_exact_where_the_key_draws_everything"),
    ),
    "sharp.two_key_lower": FiveTests(
        *_in(SHARP, "the_stated_tokens_attain_the_lower_bounds_inside_the_ball"),
        *_in(LAWS, "ascent_from_random_starts_reaches_the_lower_bounds_and_stays_below_the_upper_ones"),
        *_in(
            SHARP,
            "scaling_laws_of_lower_bounds",
            "two_key_lower_by_hand",
            "two_key_lower_is_nearly_the_whole_constant",
        ),
    ),
    "sharp.token_max": FiveTests(
        *_laws(f"{SHARP}::TestTokenMax", DERIVED),
        *_in(LAWS, "ascent_on_the_largest_row_does_not_exceed_token_max"),
        *_laws(f"{SHARP}::TestTokenMax", SCALED),
        *_in(SHARP, "token_max_by_hand"),
        *_in(LAWS, "token_max_without_interaction_is_exact"),
    ),
    "local.closed_form": FiveTests(
        *_laws(f"{SLOPES}::TestConstantsAtTheTokens", DERIVED),
        *_in(
            BALL,
            "ascent_at_tiny_radii_stays_below_the_constants_at_the_tokens",
            "scaling_laws",
            "two_tokens_by_hand",
            "no_interaction_is_solved_exactly",
        ),
    ),
    "local.block_norm": FiveTests(
        *_laws(f"{SLOPES}::TestConstantsAtTheTokens", DERIVED),
        *_in(
            BALL,
            "ascent_at_tiny_radii_stays_below_the_constants_at_the_tokens",
            "scaling_laws",
            "two_tokens_by_hand",
        ),
        *_in(SLOPES, "block_norms_of_two_scalar_tokens_are_exact_at_the_tokens"),
    ),
    "local.second_order": FiveTests(
        *_in(BALL, "curvature_dominates_second_derivatives_on_the_ball"),
        *_laws(f"{CERTIFICATE}::TestEveryBound", MOVED, SCALED),
        *_in(
            CERTIFICATE,
            "second_order_with_confidence_is_the_given_constant_plus_the_same_curvature",
            "exact_case",
        ),
    ),
    "local.third_order": FiveTests(
        *_in(HIGHER, "no_derivative_on_the_ball_exceeds_its_bound"),
        *_in(ORDERS, "no_ascent_exceeds_it"),
        *_in(HIGHER, "it_grows_with_the_values_in_proportion_and_not_with_the_scale_of_the_tokens"),
        *_in(ORDERS, "it_is_made_of_three_orders"),
        *_in(HIGHER, "nothing_bends_without_interaction"),
    ),
    "local.sixth_order": FiveTests(
        *_in(HIGHER, "no_derivative_of_a_high_order_exceeds_its_bound"),
        *_in(ORDERS, "no_ascent_exceeds_it"),
        *_in(HIGHER, "it_grows_with_the_values_in_proportion_and_not_with_the_scale_of_the_tokens"),
        *_in(ORDERS, "it_is_made_of_six_orders"),
        *_in(HIGHER, "nothing_bends_without_interaction"),
    ),
    "local.fourth_order": FiveTests(
        *_in(
            "certificates/test_followed.py",
            "what_lies_beyond_the_first_order_is_below_its_bound",
            "no_ascent_exceeds_it",
            "it_grows_with_the_values_in_proportion",
            "two_equal_tokens_by_hand",
            "without_interaction_nothing_is_beyond_the_first_order",
        ),
    ),
    "local.second_order_deterministic": FiveTests(
        *_in(BALL, "curvature_dominates_second_derivatives_on_the_ball"),
        *_laws(f"{CERTIFICATE}::TestEveryBound", MOVED, SCALED),
        *_in(CERTIFICATE, "the_path_by_hand", "exact_case"),
    ),
    "local.ball": FiveTests(
        *_in(BALL, "curvature_dominates_second_derivatives_on_the_ball"),
        *_laws(f"{CERTIFICATE}::TestEveryBound", MOVED, SCALED),
        *_in(CERTIFICATE, "the_path_by_hand"),
        *_in(BALL, "no_interaction_is_solved_exactly"),
    ),
    "local.one_token": FiveTests(
        *_in(
            "bounds/test_one_token.py",
            "no_displacement_of_one_token_exceeds_its_bound",
            "no_displacement_of_one_token_exceeds_its_bound",
            "the_bound_scales_with_the_values",
            "two_tokens_by_hand",
            "the_first_token_of_a_causal_mean_is_solved_exactly",
        )
    ),
    "local.hull": FiveTests(
        *_in(
            BALL,
            "hull_dominates_random_moves_row_by_row",
            "hull_dominates_ascent_row_by_row",
            "scaling_laws",
            "hull_by_hand",
            "one_token_attains_the_hull",
        )
    ),
    "split.mean_field": _split(
        f"{SPLITTING}::test_mean_field_by_hand",
        "without_interaction_the_change_is_that_of_the_mean_and_attained",
    ),
    "split.hull": _split(f"{SPLITTING}::test_hull_by_hand", "a_sliver_of_hardly_any_mass_reaches_the_hull"),
    "split.local": _split(
        f"{SPLIT_LOCAL}::test_queries_by_hand", "without_interaction_the_change_is_that_of_the_mean_and_attained"
    ),
    "context.second_order": _context(),
    "context.second_order_deterministic": _context(),
    "context.hull": _context(),
}
