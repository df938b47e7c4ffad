//! The binary `belfry`.

fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let config = server::config::Config::load(std::env::args().nth(2).as_deref().map(std::path::Path::new))?;
    let node = server::node::Node::start(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::signal::ctrl_c().await })?;
    node.stop();
    Ok(())
}
