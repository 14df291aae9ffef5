//! The tables and the log of a recorder (`bpf/recorders.h`, `bpf/log.h`): maps of their own, made when a
//! launch is to be recorded.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys::{bpf_map_create_opts, size_t};
use libbpf_rs::{Error, MapCore, MapFlags, MapHandle, MapType};

use super::abilities::TraceError;
use super::object::LoadedObject;
use super::skel::types::{pf_log_sizes, pf_table_bytes};

/// Makes the tables of the recorder with this index, 4 MiB in all, and its log of 8 MiB, and enters them in
/// the object's maps of maps. Returns the log. The kernel waits for an RCU grace period with each: some 50 ms
/// in all.
///
/// # Errors
/// When the kernel has no memory for them.
pub(super) fn make(object: &LoadedObject, recorder: u32) -> Result<MapHandle, TraceError> {
    type Bytes = pf_table_bytes;
    let all = || -> Result<MapHandle, Error> {
        let tables = [
            (
                &object.near_pages,
                "pf_near_pages",
                Bytes::PF_NEAR_PAGES_BYTES,
            ),
            (
                &object.near_paths,
                "pf_near_paths",
                Bytes::PF_NEAR_PATHS_BYTES,
            ),
            (
                &object.far_tables,
                "pf_far_tables",
                Bytes::PF_FAR_TABLES_BYTES,
            ),
        ];
        for (map_of_maps, name, bytes) in tables {
            let table = create(MapType::Array, name, bytes.0, 1)?;
            enter(map_of_maps, recorder, &table)?;
        }
        let log = create(MapType::RingBuf, "pf_log", 0, pf_log_sizes::PF_LOG_BYTES.0)?;
        enter(&object.logs, recorder, &log)?;
        Ok(log)
    };
    all().map_err(|error| {
        remove(object, recorder);
        TraceError::from_bpf("making the tables of a recording", error)
    })
}

/// Takes the log away from the programs. When this returns, no program uses it or a recorder that was switched
/// off before: the kernel has waited until those that ran have ended (`maybe_wait_bpf_programs`).
pub(super) fn remove_log(object: &LoadedObject, recorder: u32) {
    // It fails only if there is none.
    let _ = object.logs.delete(&recorder.to_ne_bytes());
}

/// Frees the tables and the log.
pub(super) fn remove(object: &LoadedObject, recorder: u32) {
    remove_log(object, recorder);
    for tables in [&object.near_pages, &object.near_paths, &object.far_tables] {
        // As above.
        let _ = tables.delete(&recorder.to_ne_bytes());
    }
}

fn enter(map_of_maps: &MapHandle, recorder: u32, table: &MapHandle) -> Result<(), Error> {
    let fd = table.as_fd().as_raw_fd();
    map_of_maps.update(&recorder.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
}

/// A map with values of so many bytes, or a ring buffer of so many bytes if they have none.
fn create(kind: MapType, name: &str, value_bytes: u32, entries: u32) -> Result<MapHandle, Error> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as size_t,
        ..Default::default()
    };
    let key_bytes = if value_bytes == 0 { 0 } else { 4 };
    MapHandle::create(kind, Some(name), key_bytes, value_bytes, entries, &options)
}
