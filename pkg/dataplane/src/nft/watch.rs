//! Notices foreign changes to one of our tables, from the kernel's own event group.
//!
//! Our own writes are filtered out in the kernel by the netlink port they came from, so that a large transaction
//! never floods the watch and a repair never triggers itself.

use std::future::poll_fn;

use nlink::netlink::nftables::NftablesGroup;
use nlink::netlink::{Connection, Nftables};

use super::NftError;

/// `NFNL_SUBSYS_NFTABLES`, the high byte of each event's type.
const SUBSYSTEM: u8 = 10;
/// Bytes before the attributes: the netlink header and nfgenmsg.
const HEADERS: usize = 20;

/// A subscription to changes of some tables made by others.
pub struct TableWatch {
    conn: Connection<Nftables>,
    tables: Vec<&'static str>,
}

impl std::fmt::Debug for TableWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWatch").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl TableWatch {
    /// Watches `tables`, ignoring what the session with netlink port `own` writes.
    ///
    /// # Errors
    /// When the socket cannot be opened, filtered or subscribed.
    pub fn open(tables: &[&'static str], own: Option<u32>) -> Result<Self, NftError> {
        let conn = Connection::<Nftables>::new().map_err(NftError::Netlink)?;
        if let Some(port) = own {
            conn.socket().attach_filter(&drop_from(port)).map_err(NftError::Netlink)?;
        }
        conn.subscribe(&[NftablesGroup::All]).map_err(NftError::Netlink)?;
        Ok(Self { conn, tables: tables.to_vec() })
    }

    /// Waits for the next foreign change to one of the tables. An overrun of the event queue counts as one: what was
    /// lost could have been ours.
    pub async fn changed(&mut self) {
        loop {
            match poll_fn(|cx| self.conn.socket().poll_recv(cx)).await {
                Ok(datagram) if !self.concerns(&datagram) => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "nf_tables event queue overran");
                    return;
                }
            }
        }
    }

    /// Forgets what has been queued so far.
    pub fn drain(&mut self) {
        while matches!(self.conn.socket().try_recv_msg(), Ok(Some(_)) | Err(_)) {
            // An overrun is reported once; the next read goes on with what is left.
        }
    }

    fn concerns(&self, datagram: &[u8]) -> bool {
        let mut rest = datagram;
        while let Some((message, next)) = split_message(rest) {
            if message.get(5) == Some(&SUBSYSTEM)
                && table_name(message).is_some_and(|name| self.tables.iter().any(|t| t.as_bytes() == name))
            {
                return true;
            }
            rest = next;
        }
        false
    }
}

/// The first netlink message of `data` and what follows it.
fn split_message(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_ne_bytes(data.get(..4)?.try_into().ok()?) as usize;
    let message = data.get(..len)?;
    (len >= 16).then(|| (message, data.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// The table a message is about: attribute 1 in every nf_tables message.
fn table_name(message: &[u8]) -> Option<&[u8]> {
    let attr = message.get(HEADERS..)?;
    let len = u16::from_ne_bytes(attr.get(..2)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(attr.get(2..4)?.try_into().ok()?);
    (kind & 0x3fff == 1).then(|| attr.get(4..len)).flatten()?.split_last().map(|(_, name)| name)
}

/// A classic BPF program: drop datagrams whose netlink header carries `port`, accept the rest.
fn drop_from(port: u32) -> Vec<u8> {
    const LOAD_WORD_ABS: u16 = 0x20;
    const JUMP_EQ: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PORT_OFFSET: u32 = 12;
    // BPF loads words in network order; the header holds the port in host order.
    let program = [
        (LOAD_WORD_ABS, 0, 0, PORT_OFFSET),
        (JUMP_EQ, 0, 1, port.to_be()),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, u32::MAX),
    ];
    let mut out = Vec::with_capacity(program.len() * 8);
    for (code, jump_true, jump_false, value) in program {
        out.extend(u16::to_ne_bytes(code));
        out.extend([jump_true, jump_false]);
        out.extend(u32::to_ne_bytes(value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(table: &str) -> Vec<u8> {
        let attr_len = 4 + table.len() + 1;
        let mut out = vec![0; HEADERS];
        out.extend(u16::try_from(attr_len).unwrap().to_ne_bytes());
        out.extend(1_u16.to_ne_bytes());
        out.extend(table.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        let len = u32::try_from(out.len()).unwrap();
        out[..4].copy_from_slice(&len.to_ne_bytes());
        out[5] = SUBSYSTEM;
        out
    }

    #[test]
    fn the_table_is_read_from_every_message_of_a_datagram() {
        let mut datagram = event("other");
        datagram.extend(event("kube-proxy"));
        let (first, rest) = split_message(&datagram).unwrap();
        assert_eq!(table_name(first), Some(&b"other"[..]));
        assert_eq!(table_name(split_message(rest).unwrap().0), Some(&b"kube-proxy"[..]));
    }

    #[test]
    fn a_short_datagram_is_no_message() {
        assert!(split_message(&[1, 2, 3]).is_none());
        assert!(split_message(&[200, 0, 0, 0, 0, 0]).is_none());
        assert!(table_name(&[0; 18]).is_none());
    }
}
