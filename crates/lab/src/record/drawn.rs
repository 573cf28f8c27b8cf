//! Randomly drawn parameters in which a recording differs from the scenario's own settings; they
//! are listed in its label.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::load::Load;
use crate::path::PathSpec;
use crate::quantity::Size;
use crate::scenario::{CaptureFormat, HostSpec, Scenario, Service};
use crate::server::{Answer, Server};

/// The client's kernel setting that limits the receive buffer of a connection.
pub(super) const RECEIVE_BUFFER: &str = "net.ipv4.tcp_rmem";

/// Randomly drawn parameters. Parameters that are not set keep the scenario's values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drawn {
    /// True if client and server are one host.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// The MTU of the hosts' devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The client's receive buffer of a connection (`tcp_rmem`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The number of connections in parallel. The number of requests stays the same or becomes
    /// slightly larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// The service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The size of responses, in percent of the scenario's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_percent: Option<u64>,
    /// The number of bytes kept of each packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u32>,
    /// The format of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<CaptureFormat>,
    /// The share of packets missing at the beginning of the recording, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin_percent: Option<u8>,
}

impl Drawn {
    /// Applies the parameters to a scenario, except the parameters of its files, because the proofs
    /// need complete files. `name` is the service that is recorded.
    pub(super) fn apply(&self, scenario: &mut Scenario, name: &str) {
        let paths = [Some(&mut scenario.path), scenario.without.path.as_mut()];
        for path in paths.into_iter().flatten() {
            self.apply_to_path(path);
        }
        let clients = [Some(&mut scenario.client), scenario.without.client.as_mut()];
        for client in clients.into_iter().flatten() {
            self.apply_to_client(client);
        }
        let mut services = scenario.services.iter_mut();
        if let Some(service) = services.find(|service| service.name == name) {
            self.apply_to_service(service);
        }
    }

    fn apply_to_path(&self, path: &mut PathSpec) {
        path.loopback |= self.loopback;
        path.mtu = self.mtu.or(path.mtu);
    }

    fn apply_to_client(&self, client: &mut HostSpec) {
        if let Some(size) = self.receive_buffer {
            let bytes = size.bytes();
            let least_usual_most = format!("4096 {bytes} {bytes}");
            let setting = RECEIVE_BUFFER.to_owned();
            client.sysctl.insert(setting, least_usual_most);
        }
    }

    fn apply_to_service(&self, service: &mut Service) {
        service.port = self.port.unwrap_or(service.port);
        let off = service.without.as_mut();
        let (server_off, load_off) =
            off.map_or((None, None), |off| (off.server.as_mut(), off.load.as_mut()));
        if let Some(connections) = self.connections {
            let loads = [Some(&mut service.load), load_off];
            let loads = loads.into_iter().flatten();
            loads.for_each(|load| spread(load, connections));
        }
        if let Some(percent) = self.size_percent {
            let servers = [Some(&mut service.server), server_off];
            let servers = servers.into_iter().flatten();
            servers.for_each(|server| resize(server, percent));
        }
    }
}

/// Distributes the same number of requests, or a few more, over this number of connections.
fn spread(load: &mut Load, connections: u32) {
    let each = |before: u32, requests: u32| (before * requests).div_ceil(connections);
    match load {
        Load::Curl(curl) => {
            curl.requests = each(curl.connections, curl.requests);
            curl.connections = connections;
        }
        Load::Own(own) => {
            let client = &mut own.client;
            let requests = each(client.connections.into(), client.requests.into());
            client.requests = u16::try_from(requests).unwrap_or(client.requests);
            client.connections = u16::try_from(connections).unwrap_or(client.connections);
        }
        Load::Command(_) => {}
    }
}

fn resize(server: &mut Server, percent: u64) {
    let scaled = |size: Size| Size::from_bytes(size.bytes().saturating_mul(percent) / 100);
    match server {
        Server::Nginx(nginx) => {
            if let Answer::Bytes(sizes) = &mut nginx.answer {
                sizes.change(scaled);
            }
        }
        Server::Own(own) => own.response.body = own.response.body.map(scaled),
        _ => {}
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format.map(|format| match format {
            CaptureFormat::Pcap => "pcap",
            CaptureFormat::PcapMicro => "pcap in microseconds",
            CaptureFormat::Pcapng => "pcapng",
        });
        let said = [
            self.loopback.then(|| "loopback".to_owned()),
            self.mtu.map(|mtu| format!("MTU {mtu}")),
            self.receive_buffer
                .map(|size| format!("receive buffer {size}")),
            self.connections.map(|many| format!("{many} connections")),
            self.size_percent
                .map(|percent| format!("answers of {percent} %")),
            self.port.map(|port| format!("port {port}")),
            self.snapshot.map(|bytes| format!("{bytes} B of a packet")),
            format.map(str::to_owned),
            self.begin_percent
                .map(|percent| format!("without the first {percent} %")),
        ];
        let said: Vec<_> = said.into_iter().flatten().collect();
        f.write_str(&said.join(", "))
    }
}
