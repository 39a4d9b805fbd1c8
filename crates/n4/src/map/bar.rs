//! BARs (TS 29.244 Tables 7.5.2.6-1 and 7.5.4.11-1).

use pfcp::group::{CreateBar, UpdateBar};
use rules::model::{Bar, BarId, BarUpdate, Edit};

use super::{edit, unsupported};
use crate::cause::Reject;

pub(super) fn create(bar: &CreateBar<'_>) -> Result<Bar, Reject> {
    bar.check_values()?;
    unsupported::create_bar(bar)?;
    Ok(Bar {
        id: BarId(bar.bar_id.0),
        notification_delay: bar.downlink_data_notification_delay.map(|delay| delay.0),
        suggested_packets: bar.suggested_buffering_packets_count.map(|count| count.0),
        extended_packets: None,
    })
}

pub(super) fn update(bar: &UpdateBar<'_>) -> Result<BarUpdate, Reject> {
    unsupported::update_bar(bar)?;
    Ok(BarUpdate {
        id: BarId(bar.bar_id.0),
        notification_delay: edit(bar.downlink_data_notification_delay, |delay| delay.0),
        suggested_packets: edit(bar.suggested_buffering_packets_count, |count| count.0),
        extended_packets: Edit::Keep,
    })
}
