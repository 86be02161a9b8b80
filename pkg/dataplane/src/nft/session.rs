//! A netlink session whose transactions may be megabytes long.

use nlink::netlink::nftables::{Family, RawMessage, Set, SetElement, Transaction};
use nlink::netlink::{Connection, Nftables};
use rustix::net::sockopt;

/// A kernel table operation failed.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The netlink socket could not be opened or sized.
    #[error("open the nf_tables socket")]
    Open(#[source] std::io::Error),
    /// The socket library refused.
    #[error("talk to nf_tables")]
    Netlink(#[source] nlink::Error),
    /// The kernel refused a transaction; nothing of it was applied.
    #[error("commit an nf_tables transaction for table {table}")]
    Commit {
        /// The table concerned.
        table: &'static str,
        /// The kernel's answer.
        #[source]
        source: nlink::Error,
    },
}

/// Room for a whole transaction: the kernel takes a batch only from a single send.
const SEND_BUFFER: usize = 64 << 20;
/// Attributes are at most 64 KiB long, and one attribute holds a message's elements.
const ELEMENTS_PER_MESSAGE: usize = 400;
const NFT_MSG_NEWTABLE: u8 = 0;
const NFT_MSG_DELTABLE: u8 = 2;
const NLM_F_CREATE: u16 = 0x400;

/// An open nf_tables session in the network namespace of the thread that opened it.
pub struct Session {
    conn: Connection<Nftables>,
    table: &'static str,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a session that will write `table` (family `ip`).
    ///
    /// # Errors
    /// When the socket cannot be opened, or its buffer not be enlarged (needs `CAP_NET_ADMIN`).
    pub fn open(table: &'static str) -> Result<Self, NftError> {
        let conn = Connection::<Nftables>::new().map_err(NftError::Netlink)?;
        sockopt::set_socket_send_buffer_size_force(conn.socket(), SEND_BUFFER)
            .map_err(|e| NftError::Open(e.into()))?;
        Ok(Self { conn, table })
    }

    /// The table this session writes.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// The netlink port of this session: events that carry it are our own.
    #[must_use]
    pub fn port(&self) -> u32 {
        self.conn.socket().pid()
    }

    /// An empty transaction.
    pub fn begin(&self) -> Transaction {
        self.conn.transaction()
    }

    /// A transaction that first removes the table with all it holds, then makes it anew; packets see either the
    /// old table or the finished new one.
    pub fn begin_replace(&self) -> Transaction {
        self.begin_remove().add_table(self.table, Family::Ip)
    }

    /// A transaction that removes the table, whether or not it exists.
    pub fn begin_remove(&self) -> Transaction {
        // Creating it first makes the removal valid on kernels that have no "destroy" (before 6.3).
        let create =
            RawMessage::new(NFT_MSG_NEWTABLE, Family::Ip).flags(NLM_F_CREATE).attrs(self.name_attr());
        let delete = RawMessage::new(NFT_MSG_DELTABLE, Family::Ip).attrs(self.name_attr());
        self.begin().raw(create).raw(delete)
    }

    fn name_attr(&self) -> Vec<u8> {
        let len = u16::try_from(4 + self.table.len() + 1).unwrap_or(u16::MAX);
        let mut out = Vec::new();
        out.extend(len.to_ne_bytes());
        out.extend(1_u16.to_ne_bytes());
        out.extend(self.table.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// Commits, all or nothing.
    ///
    /// # Errors
    /// The kernel's refusal; nothing was changed then.
    pub async fn commit(&self, transaction: Transaction) -> Result<(), NftError> {
        transaction.commit(&self.conn).await.map_err(|source| NftError::Commit { table: self.table, source })
    }
}

/// Adds `elements` to `set` in messages the kernel can take.
pub fn chunked_elements(mut transaction: Transaction, set: &Set, elements: &[SetElement]) -> Transaction {
    for chunk in elements.chunks(ELEMENTS_PER_MESSAGE) {
        transaction = transaction.add_set_elements(set, chunk);
    }
    transaction
}
