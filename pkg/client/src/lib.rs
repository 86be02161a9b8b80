//! API clients, informers and work queues.
