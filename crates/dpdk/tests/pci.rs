//! PCI devices need an EAL of their own kind, so this is a process of its own. There is no NIC to rely on: what is
//! tested is that a device that is not there is reported.

use dpdk::{Eal, Error, PciAddress, Port, PortSpec};

#[test]
fn a_missing_device_is_reported() {
    let address: PciAddress = "0000:fe:1e.7".parse().unwrap();
    let eal = Eal::builder().allow_pci(address).init().unwrap();
    assert!(eal.has_pci());
    let error = Port::open(eal, &PortSpec::Pci { address }).unwrap_err();
    assert!(matches!(error, Error::Driver { step: "open", .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("port pci 0000:fe:1e.7: cannot open:"), "{text}");
    assert!(text.contains("annot find"), "{text}");
}
