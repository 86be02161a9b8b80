//! `--token-auth-file`: lines of `token,user,uid,"group1,group2"`.

use std::collections::HashMap;

use crate::user::UserInfo;

/// Tokens and their users.
#[derive(Debug, Default)]
pub(crate) struct StaticTokens(HashMap<String, UserInfo>);

impl StaticTokens {
    /// Parses the file's text; the number of the first bad line otherwise.
    pub(crate) fn parse(text: &str) -> Result<Self, usize> {
        let mut tokens = HashMap::new();
        for (at, line) in
            text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
        {
            let mut fields = line.splitn(4, ',').map(str::trim);
            let (token, name, uid) = (fields.next(), fields.next(), fields.next());
            let groups = fields.next().unwrap_or_default().trim_matches('"');
            match (token, name, uid) {
                (Some(token), Some(name), Some(uid)) if !token.is_empty() && !name.is_empty() => {
                    let user = UserInfo {
                        name: name.to_owned(),
                        uid: uid.to_owned(),
                        groups: groups.split(',').filter(|g| !g.is_empty()).map(str::to_owned).collect(),
                        ..UserInfo::default()
                    };
                    tokens.insert(token.to_owned(), user);
                }
                _ => return Err(at + 1),
            }
        }
        Ok(Self(tokens))
    }

    /// The user of a token.
    pub(crate) fn user(&self, token: &str) -> Option<UserInfo> {
        self.0.get(token).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_groups() {
        let tokens = StaticTokens::parse("# x\nsecret,bob,7,\"dev,ops\"\nt2,eve,8\n").unwrap();
        assert_eq!(tokens.user("secret").unwrap().groups, ["dev", "ops"]);
        assert!(tokens.user("t2").unwrap().groups.is_empty());
        assert!(tokens.user("other").is_none());
        assert_eq!(StaticTokens::parse("ok,a,1\nbroken").unwrap_err(), 2);
    }
}
