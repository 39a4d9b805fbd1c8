//! Raw bindings to the distribution's DPDK, for the crate `dpdk` alone.
//!
//! Two sources make up what is here: the distribution's bindgen, restricted to the functions that Sluice calls (the
//! list is in `build.rs`, and has nothing experimental in it), and `shim/`, which gives DPDK's inline functions a
//! symbol. A shim call costs about a nanosecond, so there is one per burst; the fields of a packet buffer are read
//! through the `MBUF_*` offsets instead.
//!
//! No state lives here. Nothing is checked: every precondition is DPDK's, and `dpdk` keeps them.

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn,
    unused_qualifications
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

/// The bindings lay structures out as the C compiler does.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<rte_eth_conf>() == SHIM_SIZE_eth_conf);
    assert!(size_of::<rte_eth_dev_info>() == SHIM_SIZE_eth_dev_info);
    assert!(size_of::<rte_eth_stats>() == SHIM_SIZE_eth_stats);
    assert!(size_of::<rte_ether_addr>() == SHIM_SIZE_ether_addr);
    assert!(offset_of!(rte_eth_conf, rxmode.mq_mode) == SHIM_AT_rx_mode);
    assert!(offset_of!(rte_eth_conf, rxmode.mtu) == SHIM_AT_rx_mtu);
    assert!(offset_of!(rte_eth_conf, rxmode.offloads) == SHIM_AT_rx_offloads);
    assert!(offset_of!(rte_eth_conf, txmode.offloads) == SHIM_AT_tx_offloads);
    assert!(offset_of!(rte_eth_conf, rx_adv_conf.rss_conf) == SHIM_AT_rss);
    assert!(offset_of!(rte_eth_dev_info, driver_name) == SHIM_AT_driver_name);
    assert!(offset_of!(rte_eth_dev_info, max_mtu) == SHIM_AT_max_mtu);
    assert!(offset_of!(rte_eth_dev_info, max_rx_queues) == SHIM_AT_max_rx_queues);
    assert!(offset_of!(rte_eth_dev_info, rx_offload_capa) == SHIM_AT_rx_capa);
    assert!(offset_of!(rte_eth_dev_info, tx_offload_capa) == SHIM_AT_tx_capa);
    assert!(offset_of!(rte_eth_dev_info, reta_size) == SHIM_AT_reta_size);
    assert!(offset_of!(rte_eth_dev_info, flow_type_rss_offloads) == SHIM_AT_rss_offloads);
    assert!(offset_of!(rte_eth_dev_info, tx_desc_lim.nb_mtu_seg_max) == SHIM_AT_segments);
    assert!(offset_of!(rte_eth_stats, oerrors) == SHIM_AT_oerrors);
    assert!(offset_of!(rte_eth_stats, rx_nombuf) == SHIM_AT_rx_nombuf);
};
