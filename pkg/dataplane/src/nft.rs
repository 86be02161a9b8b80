//! What every user of nf_tables here shares: a session that can carry a large transaction, short names for the
//! expressions we use, and a watch that notices when somebody else touches one of our tables.
//!
//! All rules are written over netlink; no `nft` program is started and nothing is listed back.

mod expr;
mod session;
mod watch;

pub use expr::{
    bytes_of, cmp_eq, cmp_ne, ct_status_dnat, dnat_immediate, dnat_regs, fib_daddr_local, fib_saddr_local,
    iifname_prefix, in_set, load_daddr, load_dport, load_l4proto, load_saddr, map_lookup, mark_has, mark_or,
    mark_xor, masquerade_random, net_match, net_mismatch, numgen_random, oifname_prefix, reject_port,
    vmap_lookup, word,
};
pub use session::{NftError, Session, chunked_elements};
pub use watch::TableWatch;
