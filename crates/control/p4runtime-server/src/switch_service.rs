//! `reprise.v1.Switch`: drain, counters and the process's instance number.

use std::sync::Arc;
use std::time::Duration;

use control::{Counted, LinkState};
use dataplane::{LatencyReport, LatencySummary, Stream};
use p4runtime_proto::reprise::v1::switch_server::Switch;
use p4runtime_proto::reprise::v1::{
    DrainRequest, DrainResponse, DropCounter, GetCountersRequest, GetCountersResponse,
    GetInstanceRequest, GetInstanceResponse, Latency, PacketCounters, PortCounters, TableCounters,
    latency, port_counters,
};
use tonic::{Request, Response, Status};

use crate::device::Device;
use crate::error::EntityError;
use crate::limits::DRAIN_ANSWER_MARGIN_MS;
use crate::p4runtime_service::expect_device;

pub(crate) struct SwitchService(pub(crate) Arc<Device>);

#[tonic::async_trait]
impl Switch for SwitchService {
    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<DrainResponse>, Status> {
        let deadline = answer_within(&request);
        expect_device(&self.0, request.into_inner().device_id)?;
        tokio::select! {
            drained = self.0.control.drain() => {
                drained.map_err(EntityError::from)?;
                Ok(Response::new(DrainResponse {}))
            }
            () = deadline => Err(Status::deadline_exceeded(
                "the drain did not end in time: packets that were in the switch when it began may still be in it",
            )),
            () = self.0.shutdown_begun() => Err(EntityError::from(control::Error::Stopped).into()),
        }
    }

    async fn get_counters(
        &self,
        request: Request<GetCountersRequest>,
    ) -> Result<Response<GetCountersResponse>, Status> {
        expect_device(&self.0, request.into_inner().device_id)?;
        let counted = self.0.control.counted().await;
        let mut counters = to_proto(counted.map_err(EntityError::from)?);
        let own = self.0.controller_drops();
        let own = own.map(|(reason, packets)| drop_counter(reason, packets));
        counters.drops.extend(own);
        Ok(Response::new(counters))
    }

    async fn get_instance(
        &self,
        request: Request<GetInstanceRequest>,
    ) -> Result<Response<GetInstanceResponse>, Status> {
        expect_device(&self.0, request.into_inner().device_id)?;
        let instance = self.0.instance;
        Ok(Response::new(GetInstanceResponse { instance }))
    }
}

/// Resolves shortly before the call's deadline, or never if the call has none.
fn answer_within<T>(request: &Request<T>) -> impl Future<Output = ()> + Send + use<T> {
    let timeout = request
        .metadata()
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok())
        .and_then(parse_timeout);
    async move {
        match timeout {
            None => std::future::pending().await,
            Some(timeout) => {
                let margin = Duration::from_millis(DRAIN_ANSWER_MARGIN_MS).min(timeout / 2);
                tokio::time::sleep(timeout - margin).await;
            }
        }
    }
}

/// Parses `grpc-timeout`: digits and a unit. Accepts more than the eight digits that gRPC allows.
fn parse_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count.checked_mul(3_600)?)),
        "M" => Some(Duration::from_secs(count.checked_mul(60)?)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Converts the counters to the answer's message.
fn to_proto(mut counted: Counted) -> GetCountersResponse {
    let counters = &counted.counters;
    let ports = counters.ports().map(|(id, port)| {
        let status = counted.ports.iter().find(|status| status.id == id);
        let status = status.cloned().unwrap_or_default();
        let link = link_state(status.reported_link()).into();
        let occurred = status.drops.iter().filter(|(_, packets)| *packets > 0);
        PortCounters {
            port: u32::from(id.0),
            name: status.name,
            rx_packets: port.rx_packets,
            rx_bytes: port.rx_bytes,
            tx_packets: port.tx_packets,
            tx_bytes: port.tx_bytes,
            rx_dropped: status.rx_dropped,
            tx_dropped: status.tx_dropped,
            drops: occurred
                .map(|(reason, n)| drop_counter(reason, *n))
                .collect(),
            link_down_events: status.link_down_events,
            link,
            link_up_events: status.link_up_events,
            lost_events: status.lost_events,
            unserved_queues: status.unserved_queues,
            interface: status.interface,
        }
    });
    let ports = ports.collect();
    let tables = counted.tables.iter().map(|table| TableCounters {
        table: table.name.clone(),
        hits: table.lookups.hits,
        misses: table.lookups.misses,
        entries: table.entries as u64,
        size: table.size as u64,
    });
    let drops = counters.drops();
    GetCountersResponse {
        timestamp_ns: counted.now,
        ports,
        tables: tables.collect(),
        drops: drops
            .map(|(reason, n)| drop_counter(reason.name(), n))
            .collect(),
        packets: Some(PacketCounters {
            received: counters.received,
            cloned: counters.created_by_clone,
            replicated: counters.created_by_replication,
            transmitted: counters.transmitted,
            to_cpu: counters.to_cpu,
            inside: counted.inside,
        }),
        // The number of workers is about the number of cores, so it fits.
        workers: u32::try_from(counted.n_workers).unwrap_or(u32::MAX),
        latencies: latencies(counted.latencies.report()),
    }
}

fn link_state(link: LinkState) -> port_counters::Link {
    match link {
        LinkState::None => port_counters::Link::Unspecified,
        LinkState::Up => port_counters::Link::Up,
        LinkState::Down => port_counters::Link::Down,
        LinkState::Lost => port_counters::Link::Lost,
    }
}

fn drop_counter(reason: &str, packets: u64) -> DropCounter {
    DropCounter {
        reason: reason.into(),
        packets,
    }
}

fn latencies(report: LatencyReport) -> Vec<Latency> {
    let latency = |of: latency::Of, id: u32, summary: LatencySummary| Latency {
        of: of.into(),
        id,
        packets: summary.packets,
        sum_ns: summary.sum_ns,
        p50_ns: summary.p50_ns,
        p99_ns: summary.p99_ns,
        p999_ns: summary.p999_ns,
        max_ns: summary.max_ns,
    };
    let ports = report.ports.into_iter();
    let ports = ports.map(|(port, summary)| latency(latency::Of::Port, port.0.into(), summary));
    let streams = report.streams.into_iter().map(|(stream, summary)| {
        let (of, id) = match stream {
            Stream::Unicast => (latency::Of::Unicast, 0),
            Stream::MulticastGroup(id) => (latency::Of::MulticastGroup, id),
            Stream::CloneSession(id) => (latency::Of::CloneSession, id),
            Stream::Other => (latency::Of::Other, 0),
        };
        latency(of, id, summary)
    });
    ports.chain(streams).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_read() {
        assert_eq!(parse_timeout("1500m"), Some(Duration::from_millis(1_500)));
        assert_eq!(parse_timeout("2S"), Some(Duration::from_secs(2)));
        assert_eq!(
            parse_timeout("99999999H"),
            Some(Duration::from_secs(359_999_996_400))
        );
        assert_eq!(parse_timeout(""), None);
        assert_eq!(parse_timeout("12"), None);
        assert_eq!(parse_timeout("x1S"), None);
    }
}
