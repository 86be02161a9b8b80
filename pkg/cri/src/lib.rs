//! The runtime port: the CRI client and an in-memory fake.
