//! What the documentation shows is right: every configuration in it passes `lineway check`, and
//! every command of the README exists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn lineway(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineway")).args(args).output().unwrap()
}

/// README and every page below `docs/`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The blocks of a page that begin with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    page.split(fence)
        .skip(1)
        .filter_map(|rest| Some(rest.split("```").next()?.to_owned()))
        .collect()
}

#[test]
fn every_configuration_in_the_documentation_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        // The script that a page shows first is the one that its configuration names.
        if let Some(script) = blocks(&text, "```lua\n").first() {
            fs::write(folder.path().join("proxy.lua"), script).unwrap();
        }
        for block in blocks(&text, "```toml\n") {
            let file = folder.path().join("example.toml");
            fs::write(&file, &block).unwrap();
            let output = lineway(&["check", "--config", file.to_str().unwrap()]);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}:\n{block}\n{told}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 3, "{checked} examples were found");
}

#[test]
fn every_command_in_the_readme_exists() {
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let mut tried = 0;
    for command in readme.split("`lineway ").skip(1).filter_map(|rest| rest.split('`').next()) {
        let name: Vec<_> = command
            .split_whitespace()
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
            .collect();
        let output = lineway(&[name.as_slice(), &["--help"]].concat());
        assert!(output.status.success(), "lineway {command}");
        tried += 1;
    }
    assert!(tried >= 5, "{tried} commands were found");
}
