//! Files of a folder that the operator names; nothing leads out of it.

use std::path::{Component, Path};

/// `None`: there is no such file in it.
///
/// # Errors
/// When the name leads elsewhere, the file is larger than `most` bytes, or the system does not give it.
pub(super) fn read(folder: &Path, name: &str, most: usize) -> Result<Option<Vec<u8>>, String> {
    let path = Path::new(name);
    if name.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err("no name of a file in the folder".to_owned());
    }
    let told = |error: std::io::Error| error.to_string();
    let file = match folder.join(path).canonicalize() {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
    };
    // A link may lead out where the name does not; a pipe would never end.
    if !file.starts_with(folder.canonicalize().map_err(told)?) || !file.is_file() {
        return Err("no file of the folder".to_owned());
    }
    if file.metadata().map_err(told)?.len() > most as u64 {
        return Err(format!("more than {most} bytes"));
    }
    std::fs::read(&file).map(Some).map_err(told)
}
