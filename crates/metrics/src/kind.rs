//! The kinds of metrics, as Prometheus names them.

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Grows until the process ends.
    Counter,
    Gauge,
    /// Counters by upper bound.
    Histogram,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}
