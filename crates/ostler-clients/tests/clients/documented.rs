//! docs/clients.md names every client and every file.

use ostler_clients::CLIENTS;

#[test]
fn every_client_and_every_file_has_its_place_in_the_documentation() {
    let page = include_str!("../../../../docs/clients.md");
    for client in CLIENTS {
        let heading = format!("### {}: `{}`\n", client.title, client.id);
        let section = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading}")).1;
        let section = section.split("\n### ").next().unwrap();
        for file in client.files {
            // The global storage of VS Code has a long path on every system.
            let path = file.path.rsplit_once("globalStorage/").map_or(file.path, |(_, path)| path);
            assert!(section.contains(path), "{heading} does not name {path}");
        }
    }
}
