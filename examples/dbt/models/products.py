"""The products that may be published."""

import dpsu


def model(dbt, session):
    """Release them from the people's visits, once for each period."""
    ledger = dpsu.Ledger(dbt.config.get("ledger"))
    released = dpsu.release(
        dbt.ref("visits"),
        user="person",
        item="product",
        epsilon=1,
        delta=1e-6,
        mechanism="sieve",
        ledger=ledger.dataset("visits", budget=(3, 1e-5), once=dbt.config.get("period")),
    )
    return released.to_arrow()
