//! The PDU Session Container (TS 38.415 §5.5.2): what the ends of an N3 or N9 tunnel signal to each other about a
//! packet.
//!
//! [`PduSessionContainer`] is the whole of it, for monitoring and the simulator. The packet path reads only
//! [`Summary`], and writes it with [`Marking`](crate::build::Marking). Fields behind those that the flags announce
//! are padding or of a later release, and are ignored.

use core::fmt;
use core::num::NonZeroU8;

use crate::{DropReason, Ppi, Qfi};

/// A 64-bit NTP time stamp (RFC 5905 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct NtpTimestamp(pub u64);

/// The direction that a container is about: the PDU Type field, 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PduType {
    /// DL PDU SESSION INFORMATION (§5.5.2.1), towards the access network.
    Downlink = 0,
    /// UL PDU SESSION INFORMATION (§5.5.2.2), from the access network.
    Uplink = 1,
}

/// What the packet path reads of a container besides the QFI, in one octet: direction, RQI, PPI.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Summary(NonZeroU8);

/// DL PDU SESSION INFORMATION (TS 38.415 §5.5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Downlink {
    /// QoS flow identifier.
    pub qfi: Qfi,
    /// Reflective QoS Indicator.
    pub rqi: bool,
    /// Paging Policy Indicator, with PPP.
    pub ppi: Option<Ppi>,
    /// DL Sending Time Stamp, with QMP.
    pub sending_time: Option<NtpTimestamp>,
    /// DL QFI Sequence Number (24 bits), with SNP.
    pub sequence: Option<u32>,
    /// DL MBS QFI Sequence Number, with MSNP.
    pub mbs_sequence: Option<u32>,
    /// Burst Size (24 bits), with BSSI (Release 19, needs PPP).
    pub burst_size: Option<u32>,
    /// Time To Next Burst in 0.1 ms, with TTNBI (Release 19, needs PPP).
    pub time_to_next_burst: Option<u16>,
}

/// UL PDU SESSION INFORMATION (TS 38.415 §5.5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Uplink {
    /// QoS flow identifier.
    pub qfi: Qfi,
    /// The three time stamps of QoS monitoring, with QMP.
    pub times: Option<UplinkTimes>,
    /// DL Delay Result, with DL Delay Ind.
    pub dl_delay: Option<u32>,
    /// UL Delay Result, with UL Delay Ind.
    pub ul_delay: Option<u32>,
    /// UL QFI Sequence Number (24 bits), with SNP.
    pub sequence: Option<u32>,
    /// N3/N9 Delay Result, with N3/N9 Delay Ind.
    pub n3_n9_delay: Option<u32>,
    /// What the New IE Flags announce.
    pub new: NewIes,
}

/// The time stamps of QoS monitoring in the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UplinkTimes {
    /// DL Sending Time Stamp Repeated.
    pub dl_sending_repeated: NtpTimestamp,
    /// DL Received Time Stamp.
    pub dl_received: NtpTimestamp,
    /// UL Sending Time Stamp.
    pub ul_sending: NtpTimestamp,
}

/// The fields that the New IE Flags octet of an uplink container announces, in the order of its bits. Bits of later
/// releases are ignored, as their fields follow these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NewIes {
    /// Bit 0: whether the UL Delay Result includes the PDCP delay (D1).
    pub d1_ul_pdcp_delay: Option<bool>,
    /// Bit 1: UL Congestion Information, in 0.01 percent.
    pub ul_congestion: Option<u16>,
    /// Bit 2: DL Congestion Information, in 0.01 percent.
    pub dl_congestion: Option<u16>,
    /// Bit 3: UL Available Bitrate in kbit/s (Release 19).
    pub ul_available_bitrate: Option<u32>,
    /// Bit 4: DL Available Bitrate in kbit/s (Release 19).
    pub dl_available_bitrate: Option<u32>,
}

/// A PDU Session Container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduSessionContainer {
    /// Towards the access network.
    Downlink(Downlink),
    /// From the access network.
    Uplink(Uplink),
}

/// Bits of the second octet of a downlink container.
const PPP: u8 = 0x80;
const RQI: u8 = 0x40;
/// Bits of the second octet of an uplink container.
const N3_N9_DELAY: u8 = 0x80;
const NEW_IE_FLAG: u8 = 0x40;
/// Bits of the first octet.
const QMP: u8 = 0x08;
const DL_SNP: u8 = 0x04;
const DL_MSNP: u8 = 0x02;
const UL_DL_DELAY: u8 = 0x04;
const UL_UL_DELAY: u8 = 0x02;
const UL_SNP: u8 = 0x01;
/// Bits of the PPI octet of a downlink container.
const BSSI: u8 = 0x02;
const TTNBI: u8 = 0x01;

impl Summary {
    const UPLINK: u8 = 0x40;
    const RQI: u8 = 0x20;
    const PPP: u8 = 0x10;

    /// An uplink container: it has neither RQI nor PPI.
    pub const UPLINK_CONTAINER: Self = Self(NonZeroU8::new(1 | Self::UPLINK).unwrap());

    /// A downlink container with these indications.
    #[inline]
    pub fn downlink(rqi: bool, ppi: Option<Ppi>) -> Self {
        let ppi = ppi.map_or(0, |ppi| Self::PPP | ppi.get() << 1);
        // The lowest bit is always set, so that `None` takes no room.
        Self(NonZeroU8::MIN | bit(rqi, Self::RQI) | ppi)
    }

    /// Direction.
    #[inline]
    pub const fn pdu_type(self) -> PduType {
        if self.0.get() & Self::UPLINK != 0 {
            PduType::Uplink
        } else {
            PduType::Downlink
        }
    }

    /// Reflective QoS Indicator; false in the uplink.
    #[inline]
    pub const fn rqi(self) -> bool {
        self.0.get() & Self::RQI != 0
    }

    /// Paging Policy Indicator; `None` in the uplink.
    #[inline]
    pub const fn ppi(self) -> Option<Ppi> {
        if self.0.get() & Self::PPP != 0 {
            Some(Ppi::from_low_bits(self.0.get() >> 1))
        } else {
            None
        }
    }

    /// Reads the QFI and the summary of a container's content: the octets between the length of the extension header
    /// and its next type. Fields that the flags announce are checked to be there.
    ///
    /// # Errors
    /// [`DropReason::BadPduSessionContainer`].
    pub fn parse(content: &[u8]) -> Result<(Qfi, Self), DropReason> {
        match content {
            &[first, second, ..] => match Self::of_short(first, second) {
                Some(short) => Ok(short),
                None => Self::parse_long(content),
            },
            _ => Err(DropReason::BadPduSessionContainer),
        }
    }

    /// The same for a container whose flags announce nothing; `None` for another.
    #[inline(always)]
    pub(crate) fn of_short(first: u8, second: u8) -> Option<(Qfi, Self)> {
        let qfi = Qfi::from_low_bits(second);
        match (first, second & 0xc0) {
            // Bit 0 of the first octet is spare in the downlink.
            (0x00 | 0x01, 0 | RQI) => Some((qfi, Self::downlink(second & RQI != 0, None))),
            (0x10, 0) => Some((qfi, Self::UPLINK_CONTAINER)),
            _ => None,
        }
    }

    fn parse_long(content: &[u8]) -> Result<(Qfi, Self), DropReason> {
        let container = PduSessionContainer::parse(content)?;
        Ok((container.qfi(), container.summary()))
    }
}

impl fmt::Debug for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Summary({:?}, rqi: {}, ppi: {:?})",
            self.pdu_type(),
            self.rqi(),
            self.ppi()
        )
    }
}

impl PduSessionContainer {
    /// Reads a container's content: the octets between the length of the extension header and its next type.
    ///
    /// # Errors
    /// [`DropReason::BadPduSessionContainer`] for another PDU type than 0 and 1, or when a field that a flag
    /// announces is not there.
    pub fn parse(content: &[u8]) -> Result<Self, DropReason> {
        let mut reader = Reader(content);
        let container = match content.first().map(|first| first >> 4) {
            Some(0) => reader.downlink().map(Self::Downlink),
            Some(1) => reader.uplink().map(Self::Uplink),
            _ => None,
        };
        container.ok_or(DropReason::BadPduSessionContainer)
    }

    /// The QoS flow identifier.
    pub const fn qfi(&self) -> Qfi {
        match self {
            Self::Downlink(container) => container.qfi,
            Self::Uplink(container) => container.qfi,
        }
    }

    /// What the packet path reads of it.
    pub fn summary(&self) -> Summary {
        match self {
            Self::Downlink(dl) => Summary::downlink(dl.rqi, dl.ppi),
            Self::Uplink(_) => Summary::UPLINK_CONTAINER,
        }
    }

    /// Writes the content, padded with zeros to a multiple of 4 minus 2 octets, to the start of `out` and gives its
    /// octets. `None` when `out` is too short. Numbers of 24 bits are cut to them; Burst Size and Time To Next Burst
    /// are left out when there is no PPI, whose octet announces them.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let mut writer = Writer { out, len: 0 };
        match self {
            Self::Downlink(container) => writer.downlink(container)?,
            Self::Uplink(container) => writer.uplink(container)?,
        }
        while writer.len % 4 != 2 {
            writer.put(&[0])?;
        }
        Some(writer.len)
    }
}

/// Takes fields off the front; `None` when one is not there.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn time(&mut self) -> Option<NtpTimestamp> {
        self.take().map(u64::from_be_bytes).map(NtpTimestamp)
    }

    /// `Some(None)` when the field is not announced.
    fn u16_if(&mut self, announced: bool) -> Option<Option<u16>> {
        if announced {
            self.take().map(|field| Some(u16::from_be_bytes(field)))
        } else {
            Some(None)
        }
    }

    fn u24_if(&mut self, announced: bool) -> Option<Option<u32>> {
        let widen = |[a, b, c]: [u8; 3]| Some(u32::from_be_bytes([0, a, b, c]));
        if announced {
            self.take().map(widen)
        } else {
            Some(None)
        }
    }

    fn u32_if(&mut self, announced: bool) -> Option<Option<u32>> {
        if announced {
            self.take().map(|field| Some(u32::from_be_bytes(field)))
        } else {
            Some(None)
        }
    }

    fn downlink(&mut self) -> Option<Downlink> {
        let [first, second] = self.take()?;
        let ppi = if second & PPP != 0 { Some(self.u8()?) } else { None };
        let has = |bit| ppi.is_some_and(|octet| octet & bit != 0);
        Some(Downlink {
            qfi: Qfi::from_low_bits(second),
            rqi: second & RQI != 0,
            ppi: ppi.map(|octet| Ppi::from_low_bits(octet >> 5)),
            sending_time: if first & QMP != 0 {
                Some(self.time()?)
            } else {
                None
            },
            sequence: self.u24_if(first & DL_SNP != 0)?,
            mbs_sequence: self.u32_if(first & DL_MSNP != 0)?,
            burst_size: self.u24_if(has(BSSI))?,
            time_to_next_burst: self.u16_if(has(TTNBI))?,
        })
    }

    fn uplink(&mut self) -> Option<Uplink> {
        let [first, second] = self.take()?;
        Some(Uplink {
            qfi: Qfi::from_low_bits(second),
            times: if first & QMP != 0 {
                Some(self.uplink_times()?)
            } else {
                None
            },
            dl_delay: self.u32_if(first & UL_DL_DELAY != 0)?,
            ul_delay: self.u32_if(first & UL_UL_DELAY != 0)?,
            sequence: self.u24_if(first & UL_SNP != 0)?,
            n3_n9_delay: self.u32_if(second & N3_N9_DELAY != 0)?,
            new: if second & NEW_IE_FLAG != 0 {
                self.new_ies()?
            } else {
                NewIes::default()
            },
        })
    }

    fn uplink_times(&mut self) -> Option<UplinkTimes> {
        Some(UplinkTimes {
            dl_sending_repeated: self.time()?,
            dl_received: self.time()?,
            ul_sending: self.time()?,
        })
    }

    fn new_ies(&mut self) -> Option<NewIes> {
        let flags = self.u8()?;
        let mut last = flags;
        while last & 0x80 != 0 {
            last = self.u8()?;
        }
        Some(NewIes {
            d1_ul_pdcp_delay: if flags & 1 != 0 {
                Some(self.u8()? & 1 != 0)
            } else {
                None
            },
            ul_congestion: self.u16_if(flags & 2 != 0)?,
            dl_congestion: self.u16_if(flags & 4 != 0)?,
            ul_available_bitrate: self.u32_if(flags & 8 != 0)?,
            dl_available_bitrate: self.u32_if(flags & 16 != 0)?,
        })
    }
}

const fn bit(present: bool, mask: u8) -> u8 {
    if present { mask } else { 0 }
}

struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.len + octets.len();
        self.out.get_mut(self.len..end)?.copy_from_slice(octets);
        self.len = end;
        Some(())
    }

    fn u16(&mut self, field: Option<u16>) -> Option<()> {
        field.map_or(Some(()), |value| self.put(&value.to_be_bytes()))
    }

    fn u24(&mut self, field: Option<u32>) -> Option<()> {
        let Some(value) = field else { return Some(()) };
        let [_, a, b, c] = value.to_be_bytes();
        self.put(&[a, b, c])
    }

    fn u32(&mut self, field: Option<u32>) -> Option<()> {
        field.map_or(Some(()), |value| self.put(&value.to_be_bytes()))
    }

    fn time(&mut self, time: NtpTimestamp) -> Option<()> {
        self.put(&time.0.to_be_bytes())
    }

    fn downlink(&mut self, dl: &Downlink) -> Option<()> {
        let first = bit(dl.sending_time.is_some(), QMP)
            | bit(dl.sequence.is_some(), DL_SNP)
            | bit(dl.mbs_sequence.is_some(), DL_MSNP);
        let second = bit(dl.ppi.is_some(), PPP) | bit(dl.rqi, RQI) | dl.qfi.get();
        self.put(&[first, second])?;
        let bursts = bit(dl.burst_size.is_some(), BSSI) | bit(dl.time_to_next_burst.is_some(), TTNBI);
        if let Some(ppi) = dl.ppi {
            self.put(&[ppi.get() << 5 | bursts])?;
        }
        if let Some(time) = dl.sending_time {
            self.time(time)?;
        }
        self.u24(dl.sequence)?;
        self.u32(dl.mbs_sequence)?;
        self.u24(dl.burst_size.filter(|_| dl.ppi.is_some()))?;
        self.u16(dl.time_to_next_burst.filter(|_| dl.ppi.is_some()))
    }

    fn uplink(&mut self, ul: &Uplink) -> Option<()> {
        let first = (PduType::Uplink as u8) << 4
            | bit(ul.times.is_some(), QMP)
            | bit(ul.dl_delay.is_some(), UL_DL_DELAY)
            | bit(ul.ul_delay.is_some(), UL_UL_DELAY)
            | bit(ul.sequence.is_some(), UL_SNP);
        let new = ul.new != NewIes::default();
        let second = bit(ul.n3_n9_delay.is_some(), N3_N9_DELAY) | bit(new, NEW_IE_FLAG) | ul.qfi.get();
        self.put(&[first, second])?;
        if let Some(times) = ul.times {
            self.time(times.dl_sending_repeated)?;
            self.time(times.dl_received)?;
            self.time(times.ul_sending)?;
        }
        self.u32(ul.dl_delay)?;
        self.u32(ul.ul_delay)?;
        self.u24(ul.sequence)?;
        self.u32(ul.n3_n9_delay)?;
        if new { self.new_ies(&ul.new) } else { Some(()) }
    }

    fn new_ies(&mut self, new: &NewIes) -> Option<()> {
        let flags = bit(new.d1_ul_pdcp_delay.is_some(), 1)
            | bit(new.ul_congestion.is_some(), 2)
            | bit(new.dl_congestion.is_some(), 4)
            | bit(new.ul_available_bitrate.is_some(), 8)
            | bit(new.dl_available_bitrate.is_some(), 16);
        self.put(&[flags])?;
        if let Some(included) = new.d1_ul_pdcp_delay {
            self.put(&[u8::from(included)])?;
        }
        self.u16(new.ul_congestion)?;
        self.u16(new.dl_congestion)?;
        self.u32(new.ul_available_bitrate)?;
        self.u32(new.dl_available_bitrate)
    }
}

#[cfg(test)]
mod tests;
