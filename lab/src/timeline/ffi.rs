//! Where the memory of BPF objects is looked into.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::RingBuffer;
use paralfetch::kernel::StartMark;

use super::skel::TimelineSkel;
use super::skel::types::{bss, pf_launch, tl_event};

/// The bytes of a ring-buffer record as an event; `None` if there are too few.
pub fn read_raw(record: &[u8]) -> Option<tl_event> {
    if record.len() < size_of::<tl_event>() {
        return None;
    }
    // SAFETY: the slice is long enough, tl_event is plain integers for which any bytes are a value,
    // and read_unaligned asks nothing of the slice's alignment.
    Some(unsafe { std::ptr::read_unaligned(record.as_ptr().cast::<tl_event>()) })
}

/// Number of the launch that is recorded (`LAUNCH` of `bpf/events.h`), and index of its slot.
pub const LAUNCH: u64 = 1;

/// Gives the launch its slot, before the programs are loaded.
pub fn begin_launch(bss: &mut bss) {
    bss.launches[LAUNCH as usize].number = LAUNCH;
    bss.live_launches = 1;
}

/// The slot of the launch.
pub fn slot(bss: &bss) -> &pf_launch {
    &bss.launches[LAUNCH as usize]
}

/// The start mark of a loaded object.
pub fn start_mark(skel: &mut TimelineSkel<'_>) -> Option<StartMark> {
    let bss = skel.maps.bss_data.as_deref_mut()?;
    let start_ns = &raw mut bss.launches[LAUNCH as usize].start_ns;
    // SAFETY: it points into the mapped .bss; the caller keeps the object until the launch is over.
    Some(unsafe { StartMark::new(start_ns) })
}

/// The ring buffer's epoll descriptor.
pub struct WakeFd<'a>(pub &'a RingBuffer<'static>);

impl AsFd for WakeFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.0.epoll_fd()) }
    }
}
