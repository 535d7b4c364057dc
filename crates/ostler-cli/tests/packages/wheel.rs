//! The wheel, with uv, uvx and pip's layout.

use ostler_testkit::Stage;

use crate::artifacts::{install, package};
use crate::kills::use_and_kill;

fn wheel() -> std::path::PathBuf {
    package("ostler_mcp-", ".whl")
}

fn uv(stage: &Stage, program: &str) -> std::process::Command {
    let mut command = stage.command(program);
    command.env("UV_CACHE_DIR", stage.sandbox.file("uv-cache")).env("UV_OFFLINE", "1");
    command
}

#[test]
fn a_program_that_uv_installed_leaves_nothing() {
    let stage = Stage::leaf();
    let environment = stage.sandbox.file("environment");
    install(uv(&stage, "uv").args(["venv", "--quiet"]).arg(&environment));
    install(
        uv(&stage, "uv")
            .args(["pip", "install", "--quiet", "--python"])
            .arg(&environment)
            .arg(wheel()),
    );
    use_and_kill(&stage, || stage.command(environment.join("bin/ostler")));
    use_and_kill(&stage, || stage.command(environment.join("bin/ostler-mcp")));
}

#[test]
fn a_program_behind_uvx_leaves_nothing() {
    let stage = Stage::leaf();
    use_and_kill(&stage, || {
        let mut uvx = uv(&stage, "uvx");
        uvx.arg("--from").arg(wheel()).arg("ostler-mcp");
        uvx
    });
}
