//! The loads of the thesis.

/// Each client has its file on one server.
pub const FIO: &str = "fio";
/// Each client has its file on both servers.
pub const IOR: &str = "ior";

/// Bytes per write unless stated otherwise.
pub const SMALL: u64 = 4 << 10;
/// Sizes of our choice, because the axis of Figure 4.2 is not available.
const SIZES: [u64; 5] = [SMALL, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The number of clients in Table 3.1 and Figure 4.2.
const CLIENTS: usize = 8;

/// A load of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// [`FIO`] or [`IOR`].
    pub workload: &'static str,
    /// The number of clients; each is a thread.
    pub clients: usize,
    /// Bytes per write.
    pub block_bytes: u64,
}

/// Returns the loads of these patterns with these numbers of clients. Only one number of clients of
/// `fio` runs with all block sizes: the largest that is at most eight, or else the smallest.
pub fn patterns(workloads: &[&'static str], clients: &[usize]) -> Vec<Pattern> {
    let below = clients.iter().copied().filter(|&it| it <= CLIENTS).max();
    let sized = below.or(clients.iter().copied().min());
    let mut all = Vec::new();
    for &workload in workloads.iter().filter(|it| [FIO, IOR].contains(it)) {
        for &clients in clients {
            let sizes = if workload == FIO && sized == Some(clients) {
                &SIZES[..]
            } else {
                &SIZES[..1]
            };
            all.extend(sizes.iter().map(|&block_bytes| Pattern {
                workload,
                clients,
                block_bytes,
            }));
        }
    }
    all
}
