//! Call control: the routing plan and the ledger of calls.
