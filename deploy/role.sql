-- The role that a server connects as: a member of clew_app and of nothing else. Run it as the owner, after clew migrate.
\getenv password SERVER_PASSWORD
SELECT 'CREATE ROLE clew_server LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_server') \gexec
ALTER ROLE clew_server PASSWORD :'password';
GRANT clew_app TO clew_server;
