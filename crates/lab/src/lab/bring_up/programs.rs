//! Starting of the real servers that have their own process, and of the processes that stop or
//! watch a service's processes.

use std::process::Command;

use rustix::process::Signal;

use super::write_plan;
use crate::error::Error;
use crate::lab::crew::{Crew, log_file};
use crate::lab::run::Run;
use crate::machine::helper::Helper;
use crate::machine::namespace::{Namespace, before_exec};
use crate::machine::tool;
use crate::scenario::Service;
use crate::scenario::service::NGINX;
use crate::server::control::group::Group;
use crate::server::control::watch::WatchPlan;
use crate::server::{Nginx, Server, ServicePort, nginx};

impl Crew {
    /// Starts a service's server, if it is a real server with its own process.
    pub(super) fn start_program(
        &mut self,
        run: &mut Run,
        server: &Namespace,
        service: &Service,
    ) -> Result<(), Error> {
        let Some(program) =
            service
                .server
                .lay(&run.folder(), service.port(), &run.scenario.path)?
        else {
            return Ok(());
        };
        let mut command = tool::command(program.tool);
        command.args(&program.arguments);
        server.enter(&mut command)?;
        enter_group(run, &[service], &service.name, &mut command)?;
        if let Some(user) = program.user {
            before_exec::own_shared_memory(&mut command);
            before_exec::become_user(&mut command, user);
        }
        self.start(run, &service.name, command, program.ends_by)
    }

    /// Starts the processes that stop a service's processes or log how often they were throttled.
    pub(super) fn start_watches(&mut self, run: &mut Run, helper: &Helper) -> Result<(), Error> {
        for service in run.scenario.services.clone() {
            if service.stop.is_none() && service.cpu_quota.is_none() {
                continue;
            }
            let role = role(&service);
            let member = run.processes.iter().find(|member| member.role == role);
            let Some(process) = member.map(|member| member.process) else {
                continue;
            };
            let group = Group::named(&(run.group_prefix() + role));
            let plan = WatchPlan {
                process,
                stop: service.stop,
                statistics: service.cpu_quota.map(|_| group.statistics()),
                log: server_log(run, &service),
            };
            let role = format!("{}.watch", service.name);
            let mut command = helper.command();
            command.arg("watch").arg(write_plan(run, &role, &plan)?);
            self.start(run, &role, command, Signal::TERM)?;
        }
        Ok(())
    }
}

/// Returns the blocks of the one nginx of all nginx services.
pub(super) fn nginx_blocks(services: &[Service]) -> Vec<(ServicePort<'_>, &Nginx)> {
    let blocks = services.iter().filter_map(|service| match &service.server {
        Server::Nginx(nginx) => Some((service.port(), nginx)),
        _ => None,
    });
    blocks.collect()
}

/// Returns the role of the process that serves a service.
fn role(service: &Service) -> &str {
    match service.server {
        Server::Nginx(_) => NGINX,
        _ => &service.name,
    }
}

/// Returns the log of a service's server.
pub(crate) fn server_log(run: &Run, service: &Service) -> std::path::PathBuf {
    match service.server {
        Server::Nginx(_) => nginx::service_log(&run.folder(), &service.name),
        _ => log_file(run, &service.name),
    }
}

/// Makes the processes of a command start in a control group, if a service that they serve has a
/// CPU quota.
pub(super) fn enter_group(
    run: &Run,
    services: &[&Service],
    role: &str,
    command: &mut Command,
) -> Result<(), Error> {
    let Some(quota) = services.iter().find_map(|service| service.cpu_quota) else {
        return Ok(());
    };
    let group = Group::named(&(run.group_prefix() + role));
    group.create(quota)?;
    group.enter(command)
}
