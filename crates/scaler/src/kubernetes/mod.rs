//! Pods of a StatefulSet, by the API server of Kubernetes.
//!
//! A StatefulSet has a number of replicas, and its pods have ordinals in place of names: the next one is behind the last, and the last goes
//! first. A coordinator's names are given once and never again, and its safety rests on that. So the StatefulSet has an annotation,
//! [`ANNOTATION`], that says which ordinal a name has, and it changes in one patch with the number of replicas. A patch names the version
//! that it was decided by; if somebody else was faster, it is refused and decided anew. An order that comes late finds no such name.
//!
//! Pods that have no name there are the operator's: they are never removed, and while one is the last, nothing below it is.

mod api;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use crate::kubernetes::api::{Api, Patched, StatefulSet};
use crate::{Actuator, Failed, check_name, is_address};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use api::ApiServer;

/// Time for one call: a pod is scheduled and started in it, or ends. The API server has a sixth of it for each answer.
pub const KUBERNETES_WITHIN: Duration = Duration::from_secs(60);

/// Distance of looks at a pod that comes or goes.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What stands for the pod's name in an address.
const POD: &str = "{pod}";

/// What stands for the pod's ordinal in an address.
const ORDINAL: &str = "{ordinal}";

/// Port of a server where no address says another.
const PORT: u16 = 11211;

/// The annotation of a StatefulSet that says which ordinal each name has: a JSON object.
const ANNOTATION: &str = "evenkeel/servers";

/// Adds pods to a StatefulSet and removes them.
#[derive(Debug)]
pub struct KubernetesActuator {
    api: Api,
    /// Where a pod's server listens, with [`POD`] or [`ORDINAL`]; by the StatefulSet's service where nothing is said.
    address: Option<String>,
    within: Duration,
    look_interval: Duration,
}

impl KubernetesActuator {
    /// Adds pods to the StatefulSet `name`, at `address`, which is `{pod}.SERVICE.NAMESPACE.svc:11211` where it is not given.
    ///
    /// # Errors
    /// No StatefulSet or namespace can have such a name, the URL is none, the address is none, or all pods would have it.
    pub fn new(server: ApiServer, name: &str, address: Option<String>) -> Result<Self, Failed> {
        check_name(name)?;
        check_name(&server.namespace)?;
        let api = Api::new(server, name, KUBERNETES_WITHIN / 6)?;
        let is_one = |it: &&String| !it.contains(POD) && !it.contains(ORDINAL);
        if let Some(address) = address.as_ref().filter(is_one) {
            return Err(api.nonsense(format!(
                "all pods would have the address {address}: give it {POD} or {ORDINAL}"
            )));
        }
        let actuator = KubernetesActuator {
            api,
            address,
            within: KUBERNETES_WITHIN,
            look_interval: LOOK_INTERVAL,
        };
        if let Some(template) = &actuator.address {
            actuator.fill(template, 0)?;
        }
        Ok(actuator)
    }

    /// The address of a pod by what is given for all.
    fn fill(&self, template: &str, ordinal: u32) -> Result<String, Failed> {
        let pod = self.api.pod(ordinal);
        let address = template
            .replace(POD, &pod)
            .replace(ORDINAL, &ordinal.to_string());
        match is_address(&address) {
            true => Ok(address),
            false => Err(self.api.nonsense(format!("{address:?} is no address"))),
        }
    }

    fn address_of(&self, set: &StatefulSet, ordinal: u32) -> Result<String, Failed> {
        match (&self.address, set.service()) {
            (Some(template), _) => self.fill(template, ordinal),
            (None, Some(service)) => {
                let namespace = self.api.namespace();
                self.fill(&format!("{POD}.{service}.{namespace}.svc:{PORT}"), ordinal)
            }
            (None, None) => Err(self.api.nonsense(
                "the StatefulSet has no serviceName, by which pods have addresses".into(),
            )),
        }
    }

    /// The ordinals of all that have a name.
    fn ordinals(&self, set: &StatefulSet) -> Result<BTreeMap<String, u32>, Failed> {
        let Some(text) = set.annotation(ANNOTATION) else {
            return Ok(BTreeMap::new());
        };
        let wrong = |what: String| {
            let what = format!("annotation {ANNOTATION} of the StatefulSet: {what}");
            self.api.nonsense(what)
        };
        let ordinals: BTreeMap<String, u32> =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for name in ordinals.keys() {
            check_name(name).map_err(|bad| wrong(bad.to_string()))?;
        }
        let mut taken: Vec<u32> = ordinals.values().copied().collect();
        taken.sort_unstable();
        if let Some(pair) = taken.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("ordinal {} is there twice", pair[0])));
        }
        Ok(ordinals)
    }

    /// Waits a moment.
    ///
    /// # Errors
    /// There is no time left.
    fn wait(&self, end: Instant) -> Result<(), Failed> {
        if Instant::now() + self.look_interval >= end {
            return Err(self.api.too_slow(self.within));
        }
        sleep(self.look_interval);
        Ok(())
    }

    /// Gives the StatefulSet as it is once a pod behind its last was added under this name, or was there.
    fn extend(&self, name: &str, end: Instant) -> Result<(StatefulSet, u32), Failed> {
        loop {
            let set = self.api.stateful_set()?;
            let mut ordinals = self.ordinals(&set)?;
            if let Some(ordinal) = ordinals.get(name).copied() {
                return match set.has(ordinal) {
                    true => Ok((set, ordinal)),
                    false => Err(self.api.nonsense(format!(
                        "{name} is pod {}, which goes or was taken away",
                        self.api.pod(ordinal)
                    ))),
                };
            }
            let ordinal = set.end();
            // A pod of this name that goes has what it has kept: the new one is to be empty.
            if self.api.look_at_pod(ordinal)?.is_none() {
                ordinals.retain(|_, it| set.has(*it));
                ordinals.insert(name.to_owned(), ordinal);
                match self.api.patch(&set, set.replicas() + 1, &ordinals)? {
                    Patched::Done(set) => return Ok((set, ordinal)),
                    Patched::Outdated => {}
                }
            }
            self.wait(end)?;
        }
    }

    /// Has the StatefulSet end before this server's pod. Gives the pod's ordinal, or none if nothing has this name.
    fn shorten(&self, name: &str, end: Instant) -> Result<Option<u32>, Failed> {
        loop {
            let set = self.api.stateful_set()?;
            let ordinals = self.ordinals(&set)?;
            let Some(ordinal) = ordinals.get(name).copied() else {
                return Ok(None);
            };
            if !set.has(ordinal) {
                return Ok(Some(ordinal));
            }
            if ordinal + 1 < set.end() {
                return Err(Failed::NotLast {
                    name: name.to_owned(),
                    pod: self.api.pod(ordinal),
                    last: self.api.pod(set.end() - 1),
                });
            }
            // Its name stays until the pod is gone: who asks again waits for that.
            match self.api.patch(&set, set.replicas() - 1, &ordinals)? {
                Patched::Done(_) => return Ok(Some(ordinal)),
                Patched::Outdated => self.wait(end)?,
            }
        }
    }

    /// A server is gone, and its name with it.
    fn forget(&self, name: &str, end: Instant) -> Result<(), Failed> {
        loop {
            let set = self.api.stateful_set()?;
            let mut ordinals = self.ordinals(&set)?;
            if ordinals.remove(name).is_none() {
                return Ok(());
            }
            match self.api.patch(&set, set.replicas(), &ordinals)? {
                Patched::Done(_) => return Ok(()),
                Patched::Outdated => self.wait(end)?,
            }
        }
    }
}

impl Actuator for KubernetesActuator {
    fn add(&mut self, name: &str) -> Result<String, Failed> {
        check_name(name)?;
        let end = Instant::now() + self.within;
        let (set, ordinal) = self.extend(name, end)?;
        let address = self.address_of(&set, ordinal)?;
        while !(self.api.look_at_pod(ordinal)?).is_some_and(|pod| pod.is_ready()) {
            self.wait(end)?;
        }
        Ok(address)
    }

    fn remove(&mut self, name: &str) -> Result<(), Failed> {
        check_name(name)?;
        let end = Instant::now() + self.within;
        let Some(ordinal) = self.shorten(name, end)? else {
            return Ok(());
        };
        while self.api.look_at_pod(ordinal)?.is_some() {
            self.wait(end)?;
        }
        self.forget(name, end)
    }

    fn list(&mut self) -> Result<BTreeMap<String, String>, Failed> {
        let set = self.api.stateful_set()?;
        let ordinals = self.ordinals(&set)?.into_iter();
        ordinals
            .filter(|(_, ordinal)| set.has(*ordinal))
            .map(|(name, ordinal)| Ok((name, self.address_of(&set, ordinal)?)))
            .collect()
    }
}
