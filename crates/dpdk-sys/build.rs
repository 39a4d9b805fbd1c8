//! Finds DPDK through pkg-config, compiles the shim and generates the bindings.
//!
//! The distribution's own flags are used as they come (`-march` among them: DPDK's headers need it), so the
//! library and what is built here agree about structures and instructions.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The oldest DPDK whose names this crate uses.
const OLDEST: &str = "22.11";

/// The libraries linked. Drivers are not: EAL loads them at run time; `net_ring` is for `rte_eth_from_rings`,
/// `sched` for benchmarks.
const LIBRARIES: [&str; 7] = [
    "rte_eal",
    "rte_ethdev",
    "rte_mbuf",
    "rte_mempool",
    "rte_net_ring",
    "rte_ring",
    "rte_sched",
];

/// Everything of DPDK that Sluice calls: nothing here may be `__rte_experimental`.
const FUNCTIONS: &[&str] = &[
    "rte_eal_hotplug_add",
    "rte_eal_hotplug_remove",
    "rte_eal_init",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_close",
    "rte_eth_dev_configure",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_from_rings",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_disable",
    "rte_eth_promiscuous_enable",
    "rte_eth_promiscuous_get",
    "rte_eth_rx_queue_setup",
    "rte_eth_stats_get",
    "rte_eth_stats_reset",
    "rte_eth_tx_queue_setup",
    "rte_get_tsc_hz",
    "rte_mempool_avail_count",
    "rte_ring_free",
    "rte_strerror",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_version",
    "shim_errno",
    "shim_flow_.*",
    "shim_l.*",
    "shim_mbuf_.*",
    "shim_pool_.*",
    "shim_reta_set",
    "shim_ring_.*",
    "shim_rx_.*",
    "shim_sched_.*",
    "shim_t.*",
];

/// Its fields are reached by the offsets of constants.h, whatever a version nests them in; of the others none is.
const OPAQUE: [&str; 4] = ["rte_mbuf", "rte_mempool", "rte_ring", "rte_sched_port"];

fn main() {
    for file in ["constants.h", "sched.c", "shim.c", "shim.h", "wrapper.h"] {
        println!("cargo::rerun-if-changed=shim/{file}");
    }
    for variable in ["PKG_CONFIG_PATH", "LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for program in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        let program = program.join("bindgen");
        if program.exists() {
            println!("cargo::rerun-if-changed={}", program.display());
        }
    }
    pkg_config(&[&format!("--atleast-version={OLDEST}")]);
    let flags: Vec<String> = pkg_config(&["--cflags"])
        .split_whitespace()
        .map(String::from)
        .collect();
    compile_shim(&flags);
    generate(&flags);
    println!(
        "cargo::rustc-link-search=native={}",
        pkg_config(&["--variable=libdir"]).trim()
    );
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// Asks pkg-config about `libdpdk`; ends the build with the way out when there is none.
fn pkg_config(arguments: &[&str]) -> String {
    let out = Command::new("pkg-config").args(arguments).arg("libdpdk").output();
    match out {
        Ok(out) if out.status.success() => String::from_utf8(out.stdout).expect("pkg-config speaks UTF-8"),
        _ => panic!("DPDK {OLDEST} or newer was not found by pkg-config: run `tools/setup.sh build`"),
    }
}

fn compile_shim(flags: &[String]) {
    let mut build = cc::Build::new();
    build
        .files(["shim/shim.c", "shim/sched.c"])
        .warnings(true)
        .flag("-std=gnu11");
    // DPDK's headers are not ours to warn about.
    for flag in flags {
        match flag.strip_prefix("-I") {
            Some(path) => build.flag("-isystem").flag(path),
            None => build.flag(flag),
        };
    }
    build.opt_level(3).compile("sluice_dpdk_shim");
}

/// Runs the distribution's `bindgen`. Its first version with these options is older than Debian 12's.
fn generate(flags: &[String]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    let mut command = Command::new("bindgen");
    command.arg("shim/wrapper.h").arg("--output").arg(&out);
    command.args([
        "--use-core",
        "--no-doc-comments",
        "--no-derive-debug",
        "--no-layout-tests",
        "--no-prepend-enum-name",
    ]);
    for of in OPAQUE {
        command.args(["--opaque-type", of]);
    }
    // Later versions have it so by themselves.
    command.args([
        "--blocklist-type",
        "size_t",
        "--raw-line",
        "pub type size_t = usize;",
    ]);
    // Thread-local variables: bindgen would declare plain statics, and reading one crashes.
    command.args(["--blocklist-item", "per_lcore_.*"]);
    command.args(["--allowlist-type", "shim_packets"]);
    command.args(["--allowlist-var", "(MBUF|SHIM)_.*|MEMPOOL_CACHE_MAX"]);
    for function in FUNCTIONS {
        command.args(["--allowlist-function", function]);
    }
    match command.arg("--").args(flags).output() {
        Ok(out) if out.status.success() => {}
        Ok(out) => panic!(
            "bindgen does not read DPDK's headers: {}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(error) => panic!("bindgen: {error}: run `tools/setup.sh build`"),
    }
}
