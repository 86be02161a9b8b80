//! The scheduler: pure filters and scores over a snapshot, and a loop that binds.
