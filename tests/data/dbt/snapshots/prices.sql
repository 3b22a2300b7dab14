{% snapshot prices %}
{{ config(target_schema='default', unique_key='id', strategy='check', check_cols=['price']) }}
select * from {{ ref('products') }}
{% endsnapshot %}
