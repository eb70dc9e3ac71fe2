"""From people to published numbers: exact noise, intervals, tables, manifest and ledger."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "costs.budget": "Budget charge_of cost_of parse_budget",
        "costs.ledger": "Account Ledger noise_for read_ledger share_of",
        "costs.plan": "Plan PlannedNoise without_plan",
        "costs.unit": "Unit unit_of",
        "estimates": "all_within consistent_tables",
        "intervals": "cube_half_widths half_widths",
        "lattices": "lattice_of",
        "manifest": "as_text manifest_of",
        "measured.agreement": "agreement_test",
        "measured.measurements": "Answers coarser",
        "nested_counts": "closest_cells rounded_cells",
        "noise": "calibrated_on exact_noise gaussian_parameter laplace_parameter require_agreement",
        "people.answers": "CountedPeople people_of",
        "people.check": "check_schema",
        "people.drafts": "draft_schema",
        "people.histogram": "count_people read_histogram",
        "people.queries": "parse_queries",
        "people.query": "DIALECTS Query query_text",
        "people.schema": "as_schema read_schema",
        "people.sources": "source_of",
        "people.values": "KINDS key_sql key_text label_of text_of",
        "post_processing": "cut_intervals nearest_whole nonnegative_cells "
        "running_whole whole_cells",
        "private_schema": "Thresholds private_draft",
        "publish": "carry_out prepare release",
        "result": "Release check_paths",
        "sampler": "draw draw_cube privacy_map",
    },
)
