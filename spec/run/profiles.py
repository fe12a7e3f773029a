"""How hard hypothesis tries: profiles that are the same with and without CI=true, one database per implementation."""

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.database import DirectoryBasedExampleDatabase

EXAMPLES = {"quick": 10, "default": 20, "thorough": 2000, "ci": 20}


def register(implementation: str) -> None:
    """Register every profile in full: hypothesis would otherwise fill in its own CI settings where CI is set."""
    for name, examples in EXAMPLES.items():
        ci = name == "ci"
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,  # a slow machine is not a wrong implementation
            derandomize=ci,
            # Examples that failed one implementation say nothing about another.
            database=None if ci else DirectoryBasedExampleDatabase(f".hypothesis/examples/{implementation}"),
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.normal,
            stateful_step_count=50,
            suppress_health_check=[HealthCheck.too_slow],
        )
