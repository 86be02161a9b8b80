//! Drivers that make the kernel equal to what netcalc wants.

pub mod nft;
