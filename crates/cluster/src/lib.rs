//! Membership, buckets and the bus between shards and nodes.
