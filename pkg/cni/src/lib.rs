//! The CNI plugin: ADD, DEL, CHECK, GC, STATUS and address management.
