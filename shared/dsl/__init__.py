"""The playbook language: source text in, a Plan and Diagnostics out. Pure; knows no tool and no broker."""
