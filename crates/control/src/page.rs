//! The web pages of coordinators and proxies: files of `web/dist`, which are part of the program. They hold no secret and ask for nothing from
//! elsewhere.

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Where it is asked for.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// What is sent with each of them. Everything comes from here, and nobody may show the page within his own, where a click on its buttons would
/// be another's. Another version may answer next time.
pub const HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-cache"),
];

/// The coordinator's.
pub const COORDINATOR_PAGE: [PageFile; 4] = [
    html(include_str!("../../../web/dist/index.html")),
    script("/page.js", include_str!("../../../web/dist/page.js")),
    STYLE,
    ICON,
];

/// A proxy's.
pub const PROXY_PAGE: [PageFile; 4] = [
    html(include_str!("../../../web/dist/proxy.html")),
    script("/proxy.js", include_str!("../../../web/dist/proxy.js")),
    STYLE,
    ICON,
];

const STYLE: PageFile = PageFile {
    path: "/page.css",
    kind: "text/css; charset=utf-8",
    text: include_str!("../../../web/dist/page.css"),
};

const ICON: PageFile = PageFile {
    path: "/icon.svg",
    kind: "image/svg+xml",
    text: include_str!("../../../web/dist/icon.svg"),
};

const fn html(text: &'static str) -> PageFile {
    PageFile {
        path: "/",
        kind: "text/html; charset=utf-8",
        text,
    }
}

const fn script(path: &'static str, text: &'static str) -> PageFile {
    PageFile {
        path,
        kind: "text/javascript; charset=utf-8",
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessLevel;

    #[test]
    fn pages_are_small_and_need_no_token_to_be_loaded() {
        for files in [COORDINATOR_PAGE, PROXY_PAGE] {
            let bytes: usize = files.iter().map(|file| file.text.len()).sum();
            assert!(bytes < 300_000, "{bytes}");
            let [index, others @ ..] = files;
            for PageFile { path, .. } in others {
                assert!(index.text.contains(&format!("\"{path}\"")), "{path}");
            }
        }
        for PageFile { path, .. } in COORDINATOR_PAGE {
            let needed = AccessLevel::needed("GET", path);
            assert_eq!(needed, AccessLevel::Anybody, "{path}");
        }
    }
}
