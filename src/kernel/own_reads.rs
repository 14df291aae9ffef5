//! What the read requests of a launch tree and its helpers were for, as the programs noted it.

use libbpf_rs::{MapCore, MapFlags};

use super::abilities::TraceError;
use super::event::user_dev;
use super::globals::LAUNCHES;
use super::object::LoadedObject;
use super::record_bytes;
use super::skel::types::{pf_by, pf_own_read};
use crate::model::{By, InodeId, OwnRead, PAGE_SIZE};

/// The requests of a launch that has a slot, of which the programs counted `count`. Those that found no room, and those
/// of which nothing is known, are left out.
///
/// # Errors
/// When the map cannot be read.
pub(super) fn of(
    object: &LoadedObject,
    launch: u64,
    count: u32,
) -> Result<Vec<OwnRead>, TraceError> {
    let slot = (launch % LAUNCHES) as u32;
    let noted = object.own_reads.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
    let noted =
        noted.map_err(|error| TraceError::from_bpf("reading a launch's requests", error))?;
    let records = noted
        .as_deref()
        .unwrap_or_default()
        .chunks_exact(size_of::<pf_own_read>());
    Ok(records.take(count as usize).filter_map(parse).collect())
}

fn parse(record: &[u8]) -> Option<OwnRead> {
    let raw: pf_own_read = record_bytes::read(record, size_of::<pf_own_read>())?;
    // A kernel page of 16 or 64 KiB is several of ours.
    let scale = (rustix::param::page_size() as u64 / PAGE_SIZE).max(1);
    let by = match raw.by {
        by if by == pf_by::PF_HELPER.0 => By::Helper,
        _ => By::Tree,
    };
    let start = raw.start.checked_mul(scale)?;
    let pages = start..start.checked_add(u64::from(raw.pages) * scale)?;
    (!pages.is_empty()).then(|| OwnRead {
        inode: InodeId {
            dev: user_dev(raw.dev),
            ino: raw.ino,
            generation: raw.generation,
        },
        pages,
        time_ns: raw.time_ns,
        by,
    })
}
