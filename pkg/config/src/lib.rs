//! Configuration machinery: the file layout of a node and the merging of files, flags and environment.
