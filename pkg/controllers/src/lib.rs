//! The controllers: pure plans over cached state, and one executor.
