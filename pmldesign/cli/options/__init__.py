"""Arguments and options that several commands share."""

from pmldesign.cli.options.alpha import (
    alpha_file_option,
    alpha_sample_options,
    at_alpha_option,
    read_alpha,
    require_alpha_fits,
)
from pmldesign.cli.options.arguments import (
    add_options,
    design_arguments,
    gap_options,
    given,
    numbers,
)
from pmldesign.cli.options.guarantees import (
    build_guarantee,
    build_guarantees,
    failure_option,
    guarantee_list_options,
    guarantee_options,
    neighbours_option,
)
from pmldesign.cli.options.inputs import (
    known_option,
    load_known,
    load_queries,
    load_strategy,
    participation_option,
    schema_option,
    strategy_help,
    warn_of_known,
    weights_option,
)
from pmldesign.cli.options.outputs import (
    json_option,
    plot_option,
    report_option,
    strategy_option,
    table_options,
    write_tables,
)

__all__ = [
    "add_options",
    "alpha_file_option",
    "alpha_sample_options",
    "at_alpha_option",
    "build_guarantee",
    "build_guarantees",
    "design_arguments",
    "failure_option",
    "gap_options",
    "given",
    "guarantee_list_options",
    "guarantee_options",
    "json_option",
    "known_option",
    "load_known",
    "load_queries",
    "load_strategy",
    "neighbours_option",
    "numbers",
    "participation_option",
    "plot_option",
    "read_alpha",
    "report_option",
    "require_alpha_fits",
    "schema_option",
    "strategy_help",
    "strategy_option",
    "table_options",
    "warn_of_known",
    "weights_option",
    "write_tables",
]
